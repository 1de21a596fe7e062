//! Whether the database answers.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use crate::clock::BootInstant;
use crate::store::StoreError;

/// What the relay remembers of the database between two polls.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    failing: Mutex<Option<(BootInstant, String)>>,
    /// Whether the check for orphaned rows has succeeded.
    pub(crate) are_orphaned_rows_known: AtomicBool,
}

impl StoreHealth {
    pub(crate) fn note<T>(&self, result: &Result<T, StoreError>, now: BootInstant) {
        let mut down = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        *down = match result {
            // A lock, for example of an ALTER TABLE, delays statements. The database answers, and a health check must not
            // restart the process.
            Ok(_) | Err(StoreError::Conflict(_)) => None,
            Err(error) => Some((down.take().map_or(now, |(since, _)| since), error.to_string())),
        };
    }

    /// Since when it has failed, and its last error; `None` while it answers.
    pub(crate) fn failing(&self) -> Option<(BootInstant, String)> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
