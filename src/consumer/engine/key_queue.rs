//! The records of one key in one partition, which run in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::consumer::record::Record;

/// What runs in order within a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum QueueKey {
    /// The records of a key.
    Key(Arc<[u8]>),
    /// Those without a key.
    Keyless,
    /// One record without a key, if these need no order.
    Single(i64),
    /// All records of the partition.
    Whole,
}

/// What a worker is to do for a queue.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Record(Arc<Record>),
    Replay(Replay),
}

impl Work {
    /// The offset of a record.
    pub(crate) fn offset(&self) -> Option<i64> {
        self.record().map(|record| record.offset)
    }

    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Self::Record(record) => Some(record),
            Self::Replay(_) => None,
        }
    }
}

/// Parked records that somebody released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Replay {
    /// All of a key, in order.
    Key(Arc<[u8]>),
    /// One row.
    Row(i64),
}

/// How far the first record of a queue is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Handle,
    /// It has failed for good, and is to be parked.
    GiveUp {
        reason: Arc<str>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueState {
    Ready,
    Running,
    /// The first record waits for its next attempt.
    Waiting(Instant),
    /// The first record is not tried again by this process.
    Blocked,
}

#[derive(Debug)]
pub(super) struct KeyQueue {
    pub(super) entries: VecDeque<Work>,
    pub(super) state: QueueState,
    /// Of the first record.
    pub(super) failures: u32,
    pub(super) conflicts: u32,
    pub(super) postponed: u32,
    pub(super) step: Step,
    /// How many of the first entries a worker has.
    pub(super) running: usize,
    /// How many of the first entries have to run in a transaction of their own.
    pub(super) alone: usize,
}

impl KeyQueue {
    pub(super) fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            state: QueueState::Ready,
            failures: 0,
            conflicts: 0,
            postponed: 0,
            step: Step::Handle,
            running: 0,
            alone: 0,
        }
    }

    /// Removes the first entry, and turns to the next one.
    pub(super) fn advance(&mut self) -> Option<Work> {
        (self.failures, self.conflicts, self.postponed, self.step) = (0, 0, 0, Step::Handle);
        self.alone = self.alone.saturating_sub(1);
        self.state = QueueState::Ready;
        self.entries.pop_front()
    }

    /// The offset of the first entry, if that is a record.
    pub(super) fn first_offset(&self) -> Option<i64> {
        self.entries.front()?.offset()
    }

    /// How many of the first entries have begun: one of them runs, waits or blocks its key, or has failed before.
    pub(super) fn begun(&self) -> usize {
        match self.state {
            QueueState::Running => self.running,
            QueueState::Ready if self.failures == 0 => 0,
            QueueState::Ready | QueueState::Waiting(_) | QueueState::Blocked => 1,
        }
    }
}
