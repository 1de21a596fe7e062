//! Which record runs when, and how far each partition is done: without a broker, a database or a clock.

mod batch;
mod bounds;
mod copies;
mod groups;
mod isolation;
mod key_queue;
mod look_ahead;
mod note;
mod outage;
mod outcome;
mod partition;
mod settle;
mod suspects;
#[cfg(test)]
mod tests;
mod watermark;

use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use self::bounds::Done;
pub(crate) use self::copies::Copies;
pub(crate) use self::key_queue::{QueueKey, Replay, Step, Work};
pub(crate) use self::note::{Group, Note};
pub(crate) use self::outcome::{Commit, Job, Mark, Next, Outcome, OwnedGroup, Settled, Token};
pub(crate) use self::partition::Opening;

use self::isolation::{Groups, NextInGroups};
use self::key_queue::QueueState;
use self::outage::Outage;
use self::partition::{Origin, Partition};
use super::options::Options;
use super::record::{PartitionId, Record};

/// The records in memory, and their order.
#[derive(Debug)]
pub(crate) struct Engine {
    options: Arc<Options>,
    partitions: HashMap<PartitionId, Partition>,
    /// Queues that may run, each at its turn. Some entries are stale.
    ready: VecDeque<Token>,
    waiting: BinaryHeap<Reverse<WaitingQueue>>,
    /// Jobs that workers have, those of earlier assignments included.
    running: usize,
    replays_ended: u64,
    groups: Groups,
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

/// A queue whose first record waits for its next attempt.
#[derive(Debug, PartialEq, Eq)]
struct WaitingQueue {
    until: Instant,
    token: Token,
}

impl Ord for WaitingQueue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = |queue: &Self| (queue.until, queue.token.generation);
        order(self).cmp(&order(other)).then_with(|| self.token.queue.cmp(&other.token.queue))
    }
}

impl PartialOrd for WaitingQueue {
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
            replays_ended: 0,
            groups: Groups::default(),
            generations: 0,
            outage: Outage::default(),
            writer: random(),
        }
    }

    /// Begins with a partition that was assigned.
    pub(crate) fn open(&mut self, id: PartitionId, mut opening: Opening, now: Instant) {
        if opening.note.writer == self.writer {
            // This process lost the partition, and lives.
            opening.note.unclean = opening.note.unclean.saturating_sub(1);
            opening.note.running = None;
        }
        self.generations += 1;
        let origin = Origin { generation: self.generations, writer: self.writer, opened_at: now };
        let partition = Partition::new(origin, opening, self.options.records_max);
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
        // The next owner must not find the mark of a group that does not run.
        let known = removed.filter(|(_, of)| !of.needs_reopening || self.groups.is_marked(of.generation));
        let clean = known.map(|(id, partition)| {
            let (next, note) = (partition.watermark.next(), partition.last_note());
            Commit { partition: id, next, note }
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
        let queue = self.queue_of(&record);
        let Some(partition) = self.partitions.get_mut(&record.partition) else { return };
        if partition.watermark.is_missing(record.offset) {
            // Going on would pass it over.
            partition.needs_reopening = true;
        }
        if partition.is_closing || partition.needs_reopening || !partition.watermark.add(record.offset) {
            return;
        }
        let token =
            Token { partition: record.partition.clone(), generation: partition.generation, queue: queue.clone() };
        let is_first = partition.queues.get(&queue).is_none_or(|queue| queue.entries.is_empty());
        partition.add(queue, record);
        if is_first {
            self.ready.push_back(token);
        }
    }

    /// Takes released records of a partition, each before what follows of its key.
    pub(crate) fn replay(&mut self, id: &PartitionId, replays: Vec<(QueueKey, Replay)>) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        for (queue, replay) in replays {
            let queue = if self.options.progress.has_offsets() { QueueKey::Whole } else { queue };
            if partition.add_replay(queue.clone(), replay) {
                self.ready.push_back(Token { partition: id.clone(), generation: partition.generation, queue });
            }
        }
    }

    /// How many replays have ended. A list of released records that was read before the last one ended is
    /// stale: it may still have that one.
    pub(crate) fn replays_ended(&self) -> u64 {
        self.replays_ended
    }

    /// The partitions with parked records.
    pub(crate) fn with_parked(&self) -> Vec<PartitionId> {
        let has_any = |partition: &Partition| partition.has_parked_alone || !partition.parked_keys.is_empty();
        let parked = self.partitions.iter().filter(|(_, partition)| has_any(partition));
        parked.map(|(id, _)| id.clone()).collect()
    }

    fn queue_of(&self, record: &Record) -> QueueKey {
        match &record.key {
            // What is written in the handler's transaction is where the partition is done up to.
            _ if self.options.progress.has_offsets() => QueueKey::Whole,
            Some(key) => QueueKey::Key(Arc::clone(key)),
            None if self.options.keyless_in_parallel => QueueKey::Single(record.offset),
            None => QueueKey::Keyless,
        }
    }

    /// What a worker may do now.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.wake(now);
        if self.outage.is_there() {
            self.unmark_idle();
            return Next::Wait(None);
        }
        match self.next_in_groups() {
            NextInGroups::Run(token) => {
                return self.begin(token, 0).map_or(Next::Wait(None), |job| Next::Jobs(vec![job]));
            }
            NextInGroups::Wait => return Next::Wait(self.wakes_at()),
            NextInGroups::Free => {}
        }
        while let Some(token) = self.ready.pop_front() {
            let jobs = if self.may_run(&token) { self.begin_batch(token) } else { Vec::new() };
            if !jobs.is_empty() {
                return Next::Jobs(jobs);
            }
        }
        Next::Wait(self.wakes_at())
    }

    /// When the next queue's wait is over.
    fn wakes_at(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse(first)| first.until)
    }

    /// Makes queues ready whose wait is over.
    fn wake(&mut self, now: Instant) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.until <= now) {
            let Some(Reverse(WaitingQueue { until, token })) = self.waiting.pop() else { return };
            let partition = self.assigned_mut(&token.partition, token.generation);
            let queue = partition.and_then(|partition| partition.queues.get_mut(&token.queue));
            if let Some(queue) = queue.filter(|queue| queue.state == QueueState::Waiting(until)) {
                queue.state = QueueState::Ready;
                self.ready.push_back(token);
            }
        }
    }

    /// A partition, if the assignment is still this one.
    fn assigned(&self, id: &PartitionId, generation: u64) -> Option<&Partition> {
        self.partitions.get(id).filter(|of| of.generation == generation)
    }

    fn assigned_mut(&mut self, id: &PartitionId, generation: u64) -> Option<&mut Partition> {
        self.partitions.get_mut(id).filter(|of| of.generation == generation)
    }

    /// Whether a turn is not stale. Entries of a partition whose records run in groups are dropped: it begins anew after.
    fn may_run(&self, token: &Token) -> bool {
        let partition = self.assigned(&token.partition, token.generation);
        let open = partition.filter(|of| !of.is_closing && !of.needs_reopening && of.isolated_left.is_none());
        let queue = open.and_then(|partition| partition.queues.get(&token.queue));
        queue.is_some_and(|queue| queue.state == QueueState::Ready && !queue.entries.is_empty())
    }

    /// Gives the first record of a queue to a worker, or a later one, where the worker has those before it.
    fn begin(&mut self, token: Token, at: usize) -> Option<Job> {
        let partition = self.partitions.get_mut(&token.partition)?;
        let expected_next = partition.watermark.next();
        let queue = partition.queues.get_mut(&token.queue)?;
        let work = queue.entries.get(at)?.clone();
        (queue.state, queue.running) = (QueueState::Running, at + 1);
        let (step, attempt) = (queue.step.clone(), queue.failures.saturating_add(1));
        let is_key_parked = match &work {
            Work::Record(record) => record.key.as_ref().is_some_and(|key| partition.parked_keys.contains(key)),
            Work::Replay(_) => true,
        };
        partition.running += 1;
        // With offsets in the database, each copy has to move them.
        let is_new = step == Step::Handle && matches!(work, Work::Record(_));
        let looks_ahead = is_new && !self.options.progress.has_offsets();
        let ahead = if looks_ahead { partition.look_ahead(&token.queue) } else { Vec::new() };
        self.running += 1;
        self.groups.begin();
        let outages = self.outage.count();
        Some(Job { token, work, step, attempt, expected_next, is_key_parked, outages, ahead })
    }

    /// Lets a queue wait.
    fn wait(&mut self, token: &Token, until: Instant) {
        let partition = self.partitions.get_mut(&token.partition);
        if let Some(queue) = partition.and_then(|partition| partition.queues.get_mut(&token.queue)) {
            queue.state = QueueState::Waiting(until);
            self.waiting.push(Reverse(WaitingQueue { until, token: token.clone() }));
        }
    }
}
