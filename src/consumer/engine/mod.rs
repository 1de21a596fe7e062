//! Which record runs when, and how far each partition is done: without a broker, a database or a clock.

mod alone;
mod bounds;
mod lane;
mod note;
mod outage;
mod outcome;
mod partition;
mod settle;
#[cfg(test)]
mod tests;
mod watermark;

use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use self::lane::{LaneKey, Replay, Step, Work};
pub(crate) use self::note::Note;
pub(crate) use self::outcome::{Commit, Job, Mark, Next, Outcome, Settled, Token};
pub(crate) use self::partition::Opening;

use self::lane::LaneState;
use self::outage::Outage;
use self::partition::{Origin, Partition};
use super::options::Options;
use super::record::{PartitionId, Record};

/// The records in memory, and their order.
#[derive(Debug)]
pub(crate) struct Engine {
    options: Arc<Options>,
    partitions: HashMap<PartitionId, Partition>,
    /// Lanes that may run, each at its turn. Some entries are stale.
    ready: VecDeque<Token>,
    waiting: BinaryHeap<Reverse<WaitingLane>>,
    /// Jobs that workers have, those of earlier assignments included.
    running: usize,
    is_alone_running: bool,
    generations: u64,
    outage: Outage,
    /// Tells the notes of this process from those of others.
    writer: u32,
}

/// Never 0, which a clean end leaves.
fn random() -> u32 {
    let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d]).max(1)
}

/// A lane whose first record waits for its next attempt.
#[derive(Debug, PartialEq, Eq)]
struct WaitingLane {
    until: Instant,
    token: Token,
}

impl Ord for WaitingLane {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = |lane: &Self| (lane.until, lane.token.generation);
        order(self).cmp(&order(other)).then_with(|| self.token.lane.cmp(&other.token.lane))
    }
}

impl PartialOrd for WaitingLane {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Engine {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            partitions: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BinaryHeap::new(),
            running: 0,
            is_alone_running: false,
            generations: 0,
            outage: Outage::default(),
            writer: random(),
        }
    }

    /// Begins with a partition that was assigned.
    pub(crate) fn open(&mut self, id: PartitionId, mut opening: Opening, now: Instant) {
        if opening.note.writer == self.writer {
            // This process lost the partition, and lives.
            opening.note = Note { unclean: opening.note.unclean.saturating_sub(1), alone: None, writer: self.writer };
        }
        self.generations += 1;
        let origin = Origin { generation: self.generations, writer: self.writer, opened_at: now };
        let partition = Partition::new(origin, opening, self.options.rows_max);
        self.partitions.insert(id, partition);
    }

    /// Hands out nothing more of these partitions.
    pub(crate) fn close(&mut self, ids: &[PartitionId]) {
        for id in ids {
            if let Some(partition) = self.partitions.get_mut(id) {
                partition.is_closing = true;
            }
        }
    }

    /// Whether no worker has a record of these partitions.
    pub(crate) fn is_quiet(&self, ids: &[PartitionId]) -> bool {
        ids.iter().all(|id| self.partitions.get(id).is_none_or(|partition| partition.running == 0))
    }

    /// Forgets these partitions. Returns what is to be committed for their next owner.
    pub(crate) fn remove(&mut self, ids: &[PartitionId]) -> Vec<Commit> {
        let removed = ids.iter().filter_map(|id| self.partitions.remove_entry(id));
        let clean = removed.filter(|(_, partition)| !partition.needs_reopening).map(|(id, partition)| {
            // Records whose process was killed by them stay suspect.
            let note = Note { unclean: 0, ..partition.note() };
            Commit { partition: id, next: partition.watermark.next(), note }
        });
        clean.collect()
    }

    /// The partitions that are open.
    pub(crate) fn ids(&self) -> Vec<PartitionId> {
        self.partitions.keys().cloned().collect()
    }

    pub(crate) fn is_open(&self, id: &PartitionId) -> bool {
        self.partitions.contains_key(id)
    }

    /// Notes that the database gave no connection. Returns whether that is new.
    pub(crate) fn database_is_away(&mut self, now: Instant) -> bool {
        self.outage.begin(now)
    }

    /// Whether the loop is to ask whether the database is back.
    pub(crate) fn is_ping_due(&self, now: Instant) -> bool {
        self.outage.is_due(now)
    }

    /// Notes that it is not.
    pub(crate) fn database_is_still_away(&mut self, now: Instant) {
        self.outage.go_on(now);
    }

    /// Notes that it is. Returns whether that ends an outage.
    pub(crate) fn database_is_back(&mut self) -> bool {
        self.outage.end()
    }

    /// Whether the database is away.
    pub(crate) fn is_database_away(&self) -> bool {
        self.outage.is_there()
    }

    /// The records in memory that are not finished.
    pub(crate) fn rows(&self) -> usize {
        self.partitions.values().map(|partition| partition.rows).sum()
    }

    /// How many jobs workers have.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Takes a record that was read.
    pub(crate) fn add(&mut self, record: Record) {
        let record = Arc::new(record);
        let lane = self.lane_of(&record);
        let Some(partition) = self.partitions.get_mut(&record.partition) else { return };
        if partition.watermark.is_missing(record.offset) {
            // Going on would pass it over.
            partition.needs_reopening = true;
        }
        if partition.is_closing || partition.needs_reopening || !partition.watermark.add(record.offset) {
            return;
        }
        let token = Token { partition: record.partition.clone(), generation: partition.generation, lane: lane.clone() };
        let is_first = partition.lanes.get(&lane).is_none_or(|lane| lane.queue.is_empty());
        partition.add(lane, record);
        if is_first {
            self.ready.push_back(token);
        }
    }

    /// Takes released records of a partition, each before what follows of its key.
    pub(crate) fn replay(&mut self, id: &PartitionId, replays: Vec<(LaneKey, Replay)>) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        for (lane, replay) in replays {
            let lane = if self.options.progress.has_offsets() { LaneKey::Whole } else { lane };
            if partition.add_replay(lane.clone(), replay) {
                self.ready.push_back(Token { partition: id.clone(), generation: partition.generation, lane });
            }
        }
    }

    /// The partitions with parked records or dead letters.
    pub(crate) fn with_parked(&self) -> Vec<PartitionId> {
        let has_any = |partition: &Partition| partition.has_dead_letters || !partition.parked_keys.is_empty();
        let parked = self.partitions.iter().filter(|(_, partition)| has_any(partition));
        parked.map(|(id, _)| id.clone()).collect()
    }

    fn lane_of(&self, record: &Record) -> LaneKey {
        match &record.key {
            // What is written in the handler's transaction is where the partition is done up to.
            _ if self.options.progress.has_offsets() => LaneKey::Whole,
            Some(key) => LaneKey::Key(Arc::clone(key)),
            None if self.options.keyless_in_parallel => LaneKey::Single(record.offset),
            None => LaneKey::Keyless,
        }
    }

    /// What a worker may do now.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.wake(now);
        if self.is_alone_running || self.outage.is_there() {
            return Next::Wait(None);
        }
        if let Some(alone) = self.next_alone() {
            return alone.map_or(Next::Wait(None), |token| self.begin(token));
        }
        while let Some(token) = self.ready.pop_front() {
            if self.may_run(&token) {
                return self.begin(token);
            }
        }
        Next::Wait(self.waiting.peek().map(|Reverse(first)| first.until))
    }

    /// Makes lanes ready whose wait is over.
    fn wake(&mut self, now: Instant) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.until <= now) {
            let Some(Reverse(WaitingLane { until, token })) = self.waiting.pop() else { return };
            let partition = self.partitions.get_mut(&token.partition).filter(|of| of.generation == token.generation);
            let lane = partition.and_then(|partition| partition.lanes.get_mut(&token.lane));
            if let Some(lane) = lane.filter(|lane| lane.state == LaneState::Waiting(until)) {
                lane.state = LaneState::Ready;
                self.ready.push_back(token);
            }
        }
    }

    /// Whether an entry of the queue is not stale. Entries of a partition whose records run alone are dropped: it begins anew after.
    fn may_run(&self, token: &Token) -> bool {
        let partition = self.partitions.get(&token.partition).filter(|of| of.generation == token.generation);
        let open = partition.filter(|of| !of.is_closing && !of.needs_reopening && of.alone.is_none());
        let lane = open.and_then(|partition| partition.lanes.get(&token.lane));
        lane.is_some_and(|lane| lane.state == LaneState::Ready && !lane.queue.is_empty())
    }

    /// Gives the first record of a lane to a worker.
    fn begin(&mut self, token: Token) -> Next {
        let Some(partition) = self.partitions.get_mut(&token.partition) else { return Next::Wait(None) };
        let expected_next = partition.watermark.next();
        let is_alone_mode = partition.alone.is_some();
        let Some(lane) = partition.lanes.get_mut(&token.lane) else { return Next::Wait(None) };
        let Some(work) = lane.queue.front().cloned() else { return Next::Wait(None) };
        lane.state = LaneState::Running;
        let step = lane.step.clone();
        let alone = lane.first_offset().filter(|_| is_alone_mode);
        let is_key_parked = match &work {
            Work::Record(record) => record.key.as_ref().is_some_and(|key| partition.parked_keys.contains(key)),
            Work::Replay(_) => true,
        };
        partition.running += 1;
        self.running += 1;
        self.is_alone_running = is_alone_mode;
        let outages = self.outage.count();
        Next::Job(Box::new(Job { token, work, step, expected_next, is_key_parked, outages, alone }))
    }

    /// Lets a lane wait.
    fn wait(&mut self, token: &Token, until: Instant) {
        let partition = self.partitions.get_mut(&token.partition);
        if let Some(lane) = partition.and_then(|partition| partition.lanes.get_mut(&token.lane)) {
            lane.state = LaneState::Waiting(until);
            self.waiting.push(Reverse(WaitingLane { until, token: token.clone() }));
        }
    }
}
