//! What the engine knows of a partition.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::key_queue::{KeyQueue, QueueKey, QueueState, Replay, Work};
use super::note::{Alone, Note};
use super::watermark::Watermark;
use crate::consumer::record::Record;
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
    /// Records to run until the beginning counts as survived.
    trial_left: usize,
    /// The last record that was in memory when the trial's time was over.
    trial_end: Option<i64>,
    pub(super) alone: Option<AloneMode>,
}

/// Records run alone in the process, because one of them may kill it.
#[derive(Debug)]
pub(super) struct AloneMode {
    /// Records left to run so.
    left: usize,
    /// The record that ran alone when the last owner ended.
    suspect: Option<Alone>,
    /// The record that the broker knows to run alone.
    pub(super) marked: Option<i64>,
    /// The record that is to run next, once it is marked.
    pub(super) wanted: Option<Alone>,
}

impl Partition {
    /// `trial_rows` is how many records may have been in memory when the last owner ended.
    pub(super) fn new(origin: Origin, opening: Opening, trial_rows: usize) -> Self {
        let Opening { start, note, parked_keys, has_parked_alone } = opening;
        let is_suspect = note.alone.is_some() || note.unclean >= CONSUMER_UNCLEAN_ENDS_MAX;
        let alone =
            is_suspect.then_some(AloneMode { left: trial_rows, suspect: note.alone, marked: None, wanted: None });
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
            trial_left: trial_rows,
            trial_end: None,
            alone,
        }
    }

    /// What is noted with an offset that is committed now.
    pub(super) fn note(&self) -> Note {
        let suspect = self.alone.as_ref().and_then(|mode| mode.suspect);
        Note { unclean: self.unclean, alone: suspect, writer: self.origin.writer }
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
        // A first record that runs, waits or is held has begun.
        let has_begun = queue.state != QueueState::Ready || queue.failures > 0;
        if !is_there {
            queue.entries.insert(usize::from(has_begun && !queue.entries.is_empty()), Work::Replay(replay));
        }
        queue.state == QueueState::Ready
    }

    /// Notes that a record is finished, and forgets it.
    pub(super) fn finish(&mut self, record: &Record) {
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(record.size_bytes());
        self.watermark.finish(record.offset);
        self.survive(record.offset);
    }

    /// Notes that the process has survived a record.
    fn survive(&mut self, offset: i64) {
        self.trial_left = self.trial_left.saturating_sub(1);
        if self.trial_left == 0 {
            self.unclean = 1;
        }
        if let Some(mode) = &mut self.alone {
            mode.left = mode.left.saturating_sub(1);
            mode.suspect = mode.suspect.filter(|suspect| suspect.offset != offset);
            if mode.left == 0 {
                self.alone = None;
            }
        }
    }

    /// Ends the trial once its time is over and all that was in memory then is done: a process that was stopped, or lost its session, may
    /// have fewer records than the trial counts. Returns whether records need not run alone any more.
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
        self.alone.take_if(|mode| mode.suspect.is_none()).is_some()
    }

    /// How often a record has killed the process when it ran alone.
    pub(super) fn kills(&self, offset: i64) -> u32 {
        let suspect = self.alone.as_ref().and_then(|mode| mode.suspect);
        suspect.filter(|suspect| suspect.offset == offset).map_or(0, |suspect| suspect.starts)
    }

    /// In the mode in which records run alone: the queue of the next one, which is the first in the order of the partition that may run.
    pub(super) fn next_alone(&self) -> Option<(QueueKey, Option<i64>)> {
        let ready =
            self.queues.iter().filter(|(_, queue)| queue.state == QueueState::Ready && !queue.entries.is_empty());
        ready.map(|(key, queue)| (key.clone(), queue.first_offset())).min_by_key(|(_, offset)| *offset)
    }

    /// Asks for the mark of a record that is to run alone. Returns whether it is there.
    pub(super) fn want_mark(&mut self, offset: i64) -> bool {
        let kills = self.kills(offset);
        let Some(mode) = &mut self.alone else { return true };
        let is_marked = mode.marked == Some(offset);
        mode.wanted = (!is_marked).then_some(Alone { offset, starts: kills.saturating_add(1) });
        is_marked
    }

    /// Notes that the broker has the mark.
    pub(super) fn marked(&mut self, alone: Alone) {
        if let Some(mode) = &mut self.alone {
            mode.marked = Some(alone.offset);
            mode.wanted = None;
        }
    }

    /// Notes that a record that ran alone has ended, however.
    pub(super) fn ended_alone(&mut self, offset: i64) {
        if let Some(mode) = &mut self.alone {
            mode.marked = None;
            // The process lives. What killed it before was something else.
            mode.suspect = mode.suspect.filter(|suspect| suspect.offset != offset);
        }
    }
}
