//! Rows that were committed in this process and need not be looked for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::page::{KeyHash, Waiting};
use crate::clock::BootInstant;
use crate::limits::LANE_COMMITS_MAX;

/// A row whose commit was announced, and is proven.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) lane: u16,
    pub(super) key: KeyHash,
    pub(super) waiting: Waiting,
    pub(super) announced_at: BootInstant,
}

/// Those that the reader has not seen yet. Written by whoever commits, which waits for no more than another such call.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<Vec<Arrival>>);

impl Arrivals {
    /// Whether there was room for it.
    pub(super) fn push(&self, arrival: Arrival) -> bool {
        let mut arrivals = self.lock();
        let has_room = arrivals.len() < LANE_COMMITS_MAX;
        if has_room {
            arrivals.push(arrival);
        }
        has_room
    }

    pub(super) fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.lock())
    }

    /// Whether one of them is in a lane that `is_meant` tells.
    pub(super) fn any(&self, is_meant: impl Fn(u16) -> bool) -> bool {
        self.lock().iter().any(|arrival| is_meant(arrival.lane))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
