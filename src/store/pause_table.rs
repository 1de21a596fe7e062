//! Whether the table of paused topics is there. It comes by a migration of its own, and relays work without it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_table_that_is_missing_is_looked_for_again_now_and_then() {
        let (table, looks) = (PauseTable::default(), Mutex::new(0));
        let look = async |found: bool| {
            let check = async {
                *looks.lock().unwrap() += 1;
                let missing = || StoreError::Schema(SchemaProblem::Missing { table: "outbox_paused_topics".into() });
                if found { Ok(()) } else { Err(missing()) }
            };
            table.is_there(check).await.unwrap()
        };
        for _ in 0..100 {
            assert!(!look(false).await);
        }
        assert_eq!(*looks.lock().unwrap(), 1);
        tokio::time::advance(PAUSE_TABLE_RECHECK - std::time::Duration::from_millis(1)).await;
        assert!(!look(true).await, "not yet");
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        assert!(look(true).await && look(true).await);
        assert_eq!(*looks.lock().unwrap(), 2);
    }
}
