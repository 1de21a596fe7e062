//! What the engine knows of a partition.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::copies::CopyRun;
use super::key_queue::{KeyQueue, QueueKey, QueueState, Replay, Work};
use super::note::Note;
use super::suspects::Suspects;
use super::watermark::Watermark;
use crate::consumer::record::Record;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{CONSUMER_TRIAL, CONSUMER_UNCLEAN_ENDS_MAX};

/// How a partition is opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opening {
    /// The first offset to read.
    pub(crate) start: i64,
    /// What the last owner noted there.
    pub(crate) note: Note,
    /// Keys with parked records.
    pub(crate) parked_keys: HashSet<Arc<[u8]>>,
    pub(crate) has_parked_alone: bool,
}

/// Which assignment a partition is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) generation: u64,
    pub(super) writer: u32,
    pub(super) opened_at: Instant,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) generation: u64,
    origin: Origin,
    pub(super) watermark: Watermark,
    pub(super) queues: HashMap<QueueKey, KeyQueue>,
    /// Records in memory that are not finished.
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) running: usize,
    /// Hands out nothing any more.
    pub(super) is_closing: bool,
    /// Its offset in the database is not what this process wrote last.
    pub(super) needs_reopening: bool,
    pub(super) is_paused: bool,
    /// What the broker was told last.
    pub(super) committed: Option<i64>,
    pub(super) parked_keys: HashSet<Arc<[u8]>>,
    pub(super) has_parked_alone: bool,
    unclean: u32,
    /// Whether the process has survived a record.
    has_run: bool,
    /// Records to run until the beginning counts as survived.
    trial_left: usize,
    /// The last record that was in memory when the trial's time was over.
    trial_end: Option<i64>,
    pub(super) suspects: Suspects,
    pub(super) copies: CopyRun,
    /// Records left to run in groups, if they do.
    pub(super) isolated_left: Option<usize>,
}

impl Partition {
    /// `trial_rows` is how many records may have been in memory when the last owner ended.
    pub(super) fn new(origin: Origin, opening: Opening, trial_rows: usize) -> Self {
        let Opening { start, note, parked_keys, has_parked_alone } = opening;
        let suspects = Suspects::new(&note);
        let is_suspicious = !suspects.groups().is_empty() || note.unclean >= CONSUMER_UNCLEAN_ENDS_MAX;
        Self {
            generation: origin.generation,
            origin,
            watermark: Watermark::new(start),
            queues: HashMap::new(),
            rows: 0,
            bytes: 0,
            running: 0,
            is_closing: false,
            needs_reopening: false,
            is_paused: false,
            committed: None,
            parked_keys,
            has_parked_alone,
            unclean: note.unclean.saturating_add(1),
            has_run: false,
            trial_left: trial_rows,
            trial_end: None,
            suspects,
            copies: CopyRun::new(),
            isolated_left: is_suspicious.then_some(trial_rows),
        }
    }

    /// What is noted with an offset that is committed now.
    pub(super) fn note(&self) -> Note {
        let suspects = self.suspects.groups().to_vec();
        Note { unclean: self.unclean, suspects, running: None, writer: self.origin.writer }
    }

    /// The offset that the broker is told: up to it everything is done.
    pub(super) fn next_to_commit(&self) -> i64 {
        match is_injected(InjectedBug::OffsetBeforeCommit) {
            true => self.watermark.last() + 1,
            false => self.watermark.next(),
        }
    }

    pub(super) fn add(&mut self, queue: QueueKey, record: Arc<Record>) {
        self.rows += 1;
        self.bytes += record.size_bytes();
        self.queues.entry(queue).or_insert_with(KeyQueue::new).entries.push_back(Work::Record(record));
    }

    /// Puts a replay before the records of its queue that have not begun. Returns whether the queue may run now.
    pub(super) fn add_replay(&mut self, queue: QueueKey, replay: Replay) -> bool {
        let queue = self.queues.entry(queue).or_insert_with(KeyQueue::new);
        let is_there = queue.entries.iter().any(|work| matches!(work, Work::Replay(known) if *known == replay));
        if !is_there {
            queue.entries.insert(queue.begun().min(queue.entries.len()), Work::Replay(replay));
        }
        queue.state == QueueState::Ready
    }

    /// Notes that a record is finished, and forgets it.
    pub(super) fn finish(&mut self, record: &Record) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(record.size_bytes());
        self.watermark.finish(record.offset);
        self.suspects.survive(record.offset);
        self.suspects.pass(self.watermark.next());
    }

    /// Notes that the process has survived a record that nobody had processed before.
    pub(super) fn survive(&mut self) {
        self.has_run = true;
        self.trial_left = self.trial_left.saturating_sub(1);
        if self.trial_left == 0 {
            self.unclean = 1;
        }
        self.isolated_left = self.isolated_left.map(|left| left.saturating_sub(1));
    }

    /// Ends the trial once its time is over and all that was in memory then is done: a process that was stopped, or lost its session, may
    /// have fewer records than the trial counts. Returns whether records need not run in groups any more.
    pub(super) fn pass_trial(&mut self, now: Instant) -> bool {
        if now < self.origin.opened_at + CONSUMER_TRIAL {
            return false;
        }
        let end = *self.trial_end.get_or_insert(self.watermark.last());
        if self.watermark.next() <= end {
            return false;
        }
        if self.unclean > 1 {
            self.unclean = 1;
            self.committed = None;
        }
        self.isolated_left = self.isolated_left.map(|_| 0);
        self.end_isolation()
    }

    /// Lets records run in parallel again, if enough were survived and nothing of a group runs. Returns whether it did.
    pub(super) fn end_isolation(&mut self) -> bool {
        let is_over = self.isolated_left == Some(0) && self.running == 0 && !self.has_suspects_left();
        self.isolated_left.take_if(|_| is_over).is_some()
    }

    /// Whether suspects are left to run: some that were not read yet, or whose key is not blocked.
    fn has_suspects_left(&self) -> bool {
        let not_blocked = self.queues.values().filter(|queue| queue.state != QueueState::Blocked);
        let mut records = not_blocked.flat_map(|queue| &queue.entries).filter_map(Work::offset);
        self.suspects.reach_beyond(self.watermark.last()) || records.any(|offset| self.suspects.contain(offset))
    }

    /// What is noted when an owner ends in order. One that has run nothing leaves what it found.
    pub(super) fn last_note(&self) -> Note {
        let unclean = if self.has_run { 0 } else { self.unclean.saturating_sub(1) };
        Note { unclean, ..self.note() }
    }
}
