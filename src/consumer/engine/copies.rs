//! Copies that follow one another, as after a rewind: a worker that meets the second one looks up those behind it.

use std::collections::HashSet;
use std::sync::Arc;

use crate::limits::{CONSUMER_LOOK_AHEAD_MAX, CONSUMER_LOOK_AHEAD_MIN};

/// What a look-up has found.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Those of the records that are copies.
    pub(crate) offsets: HashSet<i64>,
    /// Their keys that have parked records, if there are copies.
    pub(crate) parked_keys: HashSet<Arc<[u8]>>,
}

/// Whether a partition's records seem to be copies.
#[derive(Debug)]
pub(super) struct CopyRun {
    state: State,
    /// How many records are looked up next: more, while most of them are copies.
    rows: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The last record was new.
    New,
    /// The last one was a copy.
    Copies,
    /// A worker looks up those behind it.
    LookingUp,
}

impl CopyRun {
    pub(super) fn new() -> Self {
        Self { state: State::New, rows: CONSUMER_LOOK_AHEAD_MIN }
    }

    /// How many records a worker is to look up, if it is time to.
    pub(super) fn due(&self) -> Option<usize> {
        (self.state == State::Copies).then_some(self.rows)
    }

    /// One worker looks them up. Others go on as before.
    pub(super) fn begin(&mut self) {
        self.state = State::LookingUp;
    }

    pub(super) fn end(&mut self, looked_up: usize, copies: usize) {
        self.state = State::New;
        self.rows = match copies * 2 >= looked_up {
            true => (self.rows * 2).min(CONSUMER_LOOK_AHEAD_MAX),
            false => CONSUMER_LOOK_AHEAD_MIN,
        };
    }

    /// Notes whether a record was a copy.
    pub(super) fn note(&mut self, is_copy: bool) {
        if self.state != State::LookingUp {
            self.state = if is_copy { State::Copies } else { State::New };
        }
    }
}
