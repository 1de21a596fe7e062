//! Whether the database answers.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use crate::clock::BootInstant;
use crate::store::StoreError;

/// What the relay remembers of the database between two looks.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    failing: Mutex<Option<(BootInstant, String)>>,
    /// Whether it was asked what topics without order have in lanes.
    pub(crate) are_orphaned_rows_known: AtomicBool,
}

impl StoreHealth {
    pub(crate) fn note<T>(&self, result: &Result<T, StoreError>, now: BootInstant) {
        let mut down = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        *down = match result {
            // A lock in the way, as of an ALTER TABLE: the database answers, and who looks at this takes no process away for it.
            Ok(_) | Err(StoreError::Conflict(_)) => None,
            Err(error) => Some((down.take().map_or(now, |(since, _)| since), error.to_string())),
        };
    }

    /// Since when it does not answer, and what it last said; `None` while it answers.
    pub(crate) fn failing(&self) -> Option<(BootInstant, String)> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
