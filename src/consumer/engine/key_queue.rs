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
        }
    }

    /// Removes the first entry, and turns to the next one.
    pub(super) fn advance(&mut self) -> Option<Work> {
        (self.failures, self.conflicts, self.postponed, self.step) = (0, 0, 0, Step::Handle);
        self.state = QueueState::Ready;
        self.entries.pop_front()
    }

    /// The offset of the first entry, if that is a record.
    pub(super) fn first_offset(&self) -> Option<i64> {
        match self.entries.front()? {
            Work::Record(record) => Some(record.offset),
            Work::Replay(_) => None,
        }
    }
}
