//! Whether the table of paused topics is there. It comes by a migration of its own, and relays work without it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{SchemaProblem, StoreError};
use crate::limits::PAUSE_TABLE_RECHECK;

/// The migration that makes it.
const MIGRATION: &str = "0000outbox04_paused_topics";

/// What a store knows of the table.
#[derive(Debug, Default)]
pub(crate) struct PauseTable(Mutex<Seen>);

#[derive(Debug, Default, Clone, Copy)]
enum Seen {
    #[default]
    Unknown,
    There,
    MissingAt(Instant),
}

impl PauseTable {
    /// Whether a look can ask for pauses: a statement that names a missing table fails as a whole. `check` is run where that
    /// is not known, and now and then where the table was missing.
    pub(crate) async fn is_there(
        &self,
        check: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<bool, StoreError> {
        let seen = *self.seen();
        match seen {
            Seen::There => return Ok(true),
            Seen::MissingAt(at) if at.elapsed() < PAUSE_TABLE_RECHECK => return Ok(false),
            Seen::MissingAt(_) | Seen::Unknown => {}
        }
        let is_there = match check.await {
            Ok(()) => true,
            Err(StoreError::Schema(SchemaProblem::Missing { .. })) => false,
            Err(error) => return Err(error),
        };
        *self.seen() = if is_there { Seen::There } else { Seen::MissingAt(Instant::now()) };
        Ok(is_there)
    }

    /// Notes how a look went: one that failed for good may have missed the table.
    pub(crate) fn note<T>(&self, looked: &Result<T, StoreError>) {
        if matches!(looked, Err(StoreError::Statement(_))) {
            *self.seen() = Seen::Unknown;
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer of a check to somebody who wants to pause: where the table is missing, with the migration.
pub(crate) fn wanted(checked: Result<(), StoreError>) -> Result<(), StoreError> {
    checked.map_err(|error| error.with_migration(MIGRATION))
}
