//! Inline rows that were committed in this process and need no read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::BootInstant;
use crate::limits::LANE_COMMITS_MAX;
use crate::relay::lanes::lane::page::{KeyHash, WaitingRow};

/// A row whose COMMIT was announced and is verified.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay::lanes) struct Arrival {
    pub(in crate::relay::lanes) lane: u16,
    pub(in crate::relay::lanes) key: KeyHash,
    pub(in crate::relay::lanes) waiting: WaitingRow,
    pub(in crate::relay::lanes) announced_at: BootInstant,
}

/// Arrivals that the reader has not seen yet. Committing threads write it and wait for no more than another such call.
#[derive(Debug, Default)]
pub(in crate::relay::lanes) struct Arrivals(Mutex<Vec<Arrival>>);

impl Arrivals {
    /// Returns whether there was room for it.
    pub(in crate::relay::lanes) fn push(&self, arrival: Arrival) -> bool {
        let mut arrivals = self.lock();
        let has_room = arrivals.len() < LANE_COMMITS_MAX;
        if has_room {
            arrivals.push(arrival);
        }
        has_room
    }

    pub(in crate::relay::lanes) fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.lock())
    }

    /// Whether one of them is in a lane that `is_meant` accepts.
    pub(in crate::relay::lanes) fn any(&self, is_meant: impl Fn(u16) -> bool) -> bool {
        self.lock().iter().any(|arrival| is_meant(arrival.lane))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
