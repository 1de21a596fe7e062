use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::{OpenTransaction, StoreUnderTest};
use crate::message::Envelope;
use crate::store::memory::{PendingRow, RowLock};
use crate::store::{DeadLetterRow, InsertOptions, LiveRow, MemoryStore, RowKey, Store};

/// The reference store, tested like any other.
#[derive(Debug)]
pub struct MemoryUnderTest(MemoryStore);

impl MemoryUnderTest {
    /// One that holds claimed rows by locks.
    pub fn locking() -> Self {
        Self(MemoryStore::new())
    }

    /// One that holds claimed rows by leases.
    pub fn leasing() -> Self {
        Self(MemoryStore::leasing())
    }
}

#[async_trait]
impl StoreUnderTest for MemoryUnderTest {
    fn store(&self) -> &dyn Store {
        &self.0
    }

    async fn insert(&self, envelope: &Envelope, options: InsertOptions) -> RowKey {
        self.0.insert(envelope.clone(), options)
    }

    async fn insert_uncommitted(&self, envelope: &Envelope) -> (RowKey, Box<dyn OpenTransaction>) {
        let row = self.0.insert_uncommitted(envelope.clone(), InsertOptions::default());
        (row.key(), Box::new(row))
    }

    async fn lock(&self, key: RowKey) -> Option<Box<dyn OpenTransaction>> {
        let lock = self.0.lock(key).expect("a row that is there and free");
        Some(Box::new(lock))
    }

    async fn poison(&self, key: RowKey) {
        assert!(self.0.poison(key), "a row that is there");
    }

    async fn live_rows(&self) -> Vec<LiveRow> {
        self.0.live_rows()
    }

    async fn dead_letter_rows(&self) -> Vec<DeadLetterRow> {
        self.0.dead_letter_rows()
    }

    async fn now(&self) -> SystemTime {
        self.0.now()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    async fn make_due_together(&self) {
        self.0.make_due_together(Duration::from_secs(3_600));
    }
}

#[async_trait]
impl OpenTransaction for PendingRow {
    async fn commit(self: Box<Self>) {
        PendingRow::commit(*self);
    }

    async fn roll_back(self: Box<Self>) {}
}

#[async_trait]
impl OpenTransaction for RowLock {
    async fn commit(self: Box<Self>) {}

    async fn roll_back(self: Box<Self>) {}
}
