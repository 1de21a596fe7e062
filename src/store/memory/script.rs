//! For our own tests: writes rows in every state, and makes calls fail.

use std::time::Duration;

use super::faults::{Call, Fault};
use super::state::{MemoryRow, Session};
use super::{InsertOptions, MemoryStore};
use crate::message::Envelope;
use crate::store::{DeadLetterRow, LiveRow, RowKey};

impl MemoryStore {
    /// Writes a committed row as enqueue does. The database's clock sets its `created_at`.
    ///
    /// # Panics
    /// If a live row has this message id.
    pub fn insert(&self, envelope: Envelope, options: InsertOptions) -> RowKey {
        let row = self.state().prepare(envelope, options);
        self.state().commit(row)
    }

    /// Writes a row in a transaction that stays open: nobody sees it before [`PendingRow::commit`]. Dropping it rolls back.
    pub fn insert_uncommitted(&self, envelope: Envelope, options: InsertOptions) -> PendingRow {
        let row = self.state().prepare_uncommitted(envelope, options);
        PendingRow { open: OpenTransaction { id: row.key.id, store: self.clone() }, row }
    }

    /// Locks a row as another session would; `None` if it is missing or locked already.
    pub fn lock(&self, key: RowKey) -> Option<RowLock> {
        let mut state = self.state();
        let session = state.begin(None);
        if state.lock(key, session) {
            Some(RowLock { session, store: self.clone() })
        } else {
            state.end(session);
            None
        }
    }

    /// Corrupts a row, so that it is read as [`Loaded::Poisoned`](crate::store::Loaded::Poisoned); `false` if it is missing.
    pub fn poison(&self, key: RowKey) -> bool {
        self.state().row_mut(key).map(|row| row.poisoned = true).is_some()
    }

    /// Gives every row outside of lanes the same `due_at`.
    pub fn make_due_together(&self, ago: Duration) {
        let mut state = self.state();
        let due_at = state.clock.now().minus(ago);
        for row in state.rows.values_mut().filter(|row| row.lane.is_none()) {
            row.due_at = due_at;
        }
    }

    /// The live rows, by id.
    pub fn live_rows(&self) -> Vec<LiveRow> {
        self.state().live_rows()
    }

    /// The dead letters, in the order in which they became ones.
    pub fn dead_letter_rows(&self) -> Vec<DeadLetterRow> {
        self.state().dead.iter().map(|dead| dead.row.clone()).collect()
    }

    /// Makes the next call of a kind fail or be slow. Several faults apply in the order in which they were given.
    ///
    /// ```
    /// use diesel_outbox::internals::store::{Call, Fault, PollSpec, Store};
    /// use diesel_outbox::store::{MemoryStore, StoreError};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (store, everything) = (MemoryStore::new(), PollSpec::everything([]));
    /// store.inject(Call::Poll, Fault::Refused(StoreError::Conflict("deadlock".into())));
    /// assert!(store.poll(&everything).await.unwrap_err().is_retriable());
    /// assert!(store.poll(&everything).await.is_ok());
    /// # });
    /// ```
    pub fn inject(&self, call: Call, fault: Fault) {
        self.faults().inject(call, fault);
    }

    /// How often a call was made, including calls that failed.
    pub fn calls(&self, call: Call) -> u64 {
        self.faults().calls(call)
    }
}

/// A row of an open transaction.
#[derive(Debug)]
pub struct PendingRow {
    row: MemoryRow,
    open: OpenTransaction,
}

/// Counts as open until it is dropped.
#[derive(Debug)]
struct OpenTransaction {
    id: i64,
    store: MemoryStore,
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        self.store.state().ended(self.id);
    }
}

impl PendingRow {
    /// The row's future identity.
    pub fn key(&self) -> RowKey {
        self.row.key
    }

    /// Commits it.
    ///
    /// # Panics
    /// If a live row has this message id.
    pub fn commit(self) -> RowKey {
        self.open.store.state().commit(self.row)
    }
}

/// A row lock of another session; dropping it ends that session's transaction.
#[derive(Debug)]
pub struct RowLock {
    session: Session,
    store: MemoryStore,
}

impl Drop for RowLock {
    fn drop(&mut self) {
        self.store.end(self.session);
    }
}
