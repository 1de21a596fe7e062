//! Rows of exactly-once lanes that have left the table, until the database has that on its disk.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::transport::OutboxRow;

/// Otherwise a crash of the database could bring a row back that its lane has forgotten.
#[derive(Debug, Default)]
pub(crate) struct Unflushed(Mutex<Vec<OutboxRow>>);

impl Unflushed {
    pub(crate) fn extend(&self, rows: impl IntoIterator<Item = OutboxRow>) {
        self.rows().extend(rows);
    }

    pub(crate) fn take(&self) -> Vec<OutboxRow> {
        std::mem::take(&mut *self.rows())
    }

    fn rows(&self) -> MutexGuard<'_, Vec<OutboxRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
