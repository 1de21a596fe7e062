//! Whether the table of paused topics exists. A later migration creates it, and relays work without it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{SchemaProblem, StoreError};
use crate::limits::PAUSE_TABLE_RECHECK;

/// The migration that creates it.
const MIGRATION: &str = "0000outbox04_paused_topics";

/// What a store knows about the table.
#[derive(Debug, Default)]
pub(crate) struct PauseTable(Mutex<TableState>);

#[derive(Debug, Default, Clone, Copy)]
enum TableState {
    #[default]
    Unknown,
    Present,
    MissingSince(Instant),
}

impl PauseTable {
    /// Whether a poll can ask for pauses: a statement that names a missing table fails as a whole. Runs `check` if that is unknown,
    /// and now and then if the table was missing.
    pub(crate) async fn exists(&self, check: impl Future<Output = Result<(), StoreError>>) -> Result<bool, StoreError> {
        let state = *self.state();
        match state {
            TableState::Present => return Ok(true),
            TableState::MissingSince(at) if at.elapsed() < PAUSE_TABLE_RECHECK => return Ok(false),
            TableState::MissingSince(_) | TableState::Unknown => {}
        }
        let exists = match check.await {
            Ok(()) => true,
            Err(StoreError::Schema(SchemaProblem::Missing { .. })) => false,
            Err(error) => return Err(error),
        };
        *self.state() = if exists { TableState::Present } else { TableState::MissingSince(Instant::now()) };
        Ok(exists)
    }

    /// Records the result of a poll: one that failed for good may have missed the table.
    pub(crate) fn record<T>(&self, result: &Result<T, StoreError>) {
        if matches!(result, Err(StoreError::Statement(_))) {
            *self.state() = TableState::Unknown;
        }
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a check before a pause: if the table is missing, the error names the migration.
pub(crate) fn with_pause_migration(checked: Result<(), StoreError>) -> Result<(), StoreError> {
    checked.map_err(|error| error.with_migration(MIGRATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_missing_table_is_rechecked_now_and_then() {
        let (table, checks) = (PauseTable::default(), Mutex::new(0));
        let poll = async |found: bool| {
            let check = async {
                *checks.lock().unwrap() += 1;
                let missing = || StoreError::Schema(SchemaProblem::Missing { table: "outbox_paused_topics".into() });
                if found { Ok(()) } else { Err(missing()) }
            };
            table.exists(check).await.unwrap()
        };
        for _ in 0..100 {
            assert!(!poll(false).await);
        }
        assert_eq!(*checks.lock().unwrap(), 1);
        tokio::time::advance(PAUSE_TABLE_RECHECK - std::time::Duration::from_millis(1)).await;
        assert!(!poll(true).await, "not yet");
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        assert!(poll(true).await && poll(true).await);
        assert_eq!(*checks.lock().unwrap(), 2);
    }
}
