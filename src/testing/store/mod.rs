//! The conformance suite of [`Store`]: what every store must do, as test cases.
//!
//! Implement [`StoreUnderTest`], the other side of the database: it writes rows as enqueue does, locks them from another session,
//! and reads them back. [`store_conformance_tests!`](crate::store_conformance_tests) then creates one `#[test]` per case;
//! [`run_all`] runs them all.
//!
//! ```
//! # mod held {
//! use diesel_outbox::internals::store_suite::MemoryUnderTest;
//!
//! async fn open() -> Option<MemoryUnderTest> {
//!     Some(MemoryUnderTest::locking())
//! }
//!
//! diesel_outbox::store_conformance_tests!(open);
//! # }
//! ```
//!
//! Cases assert and panic. They skip what a database does not have: if [`StoreUnderTest::lock`] returns `None` there are no row
//! locks, and if [`Store::lanes`] or [`Store::halves`] returns `None` there are no lanes or half messages.

pub mod cases;
mod list;
mod memory;
mod support;

pub use list::CASES;
pub use memory::MemoryUnderTest;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::FutureExt as _;

use crate::message::{Envelope, MessageId};
use crate::store::{DeadLetterRow, InsertOptions, LiveRow, RowKey, Store};

/// A store over empty tables that nobody else uses, and the other side of its database.
///
/// Methods panic if the database does not do what they need: that is not the store's failure.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Writes a committed row as enqueue does; the database sets `created_at`.
    async fn insert(&self, envelope: &Envelope, options: InsertOptions) -> RowKey;

    /// Writes a row in a transaction of another session that stays open.
    async fn insert_uncommitted(&self, envelope: &Envelope) -> (RowKey, Box<dyn OpenTransaction>);

    /// Locks a row from another session; `None` if the database has no row locks.
    async fn lock(&self, key: RowKey) -> Option<Box<dyn OpenTransaction>>;

    /// Corrupts a row in a way the table allows, so that it cannot be decoded: for example with headers that are no JSON.
    async fn poison(&self, key: RowKey);

    /// The live rows, by id.
    async fn live_rows(&self) -> Vec<LiveRow>;

    /// The dead letters.
    async fn dead_letter_rows(&self) -> Vec<DeadLetterRow>;

    /// The database's clock.
    async fn now(&self) -> SystemTime;

    /// Marks a half message as the first statement of a transaction that stays open; `None` if the message has a mark already, so
    /// that this one is refused. Not called if [`Store::halves`] returns `None`.
    async fn mark(&self, message: MessageId, marking: Marking) -> Option<Box<dyn OpenTransaction>> {
        panic!("this store keeps marks, and the suite has no way to write one: {marking:?} of {message}")
    }

    /// Makes time pass for the rows: moves the clock forward, or every `due_at` and the age of every mark and report back. Never called while
    /// a transaction or a claim is open, nor between getting and using a watermark.
    async fn advance(&self, by: Duration);

    /// Gives every row outside of lanes the same `due_at`, an hour ago.
    async fn make_due_together(&self);
}

/// How a half message is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marking {
    /// By the transaction itself.
    InTransaction,
    /// In a savepoint that is rolled back, while its transaction goes on.
    InRolledBackSavepoint,
}

/// A transaction of another session. Dropping it rolls it back, sooner or later.
#[async_trait]
pub trait OpenTransaction: Send {
    /// Commits it; its locks are released when this returns.
    async fn commit(self: Box<Self>);

    /// Rolls it back; its locks are released when this returns.
    async fn roll_back(self: Box<Self>);
}

/// One requirement of the documentation of [`Store`].
#[derive(Clone, Copy)]
pub struct Case {
    /// What is required; also the name of its function in [`cases`].
    pub name: &'static str,
    /// Checks the requirement, and panics if it is not met. Needs empty tables.
    pub run: fn(&dyn StoreUnderTest) -> CaseFuture<'_>,
}

/// A running case.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs every case, each on its own store from `open`.
///
/// ```
/// use diesel_outbox::internals::store_suite::{MemoryUnderTest, run_all};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// run_all(async || MemoryUnderTest::leasing()).await;
/// # });
/// ```
///
/// # Panics
/// After all have run, if some failed: with their names.
pub async fn run_all<S: StoreUnderTest>(open: impl AsyncFn() -> S) {
    let mut failed = Vec::new();
    for case in CASES {
        let under_test = open().await;
        // After a panic the store is dropped, and with it any broken state.
        if AssertUnwindSafe((case.run)(&under_test)).catch_unwind().await.is_err() {
            failed.push(case.name);
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed: {}", failed.len(), CASES.len(), failed.join(", "));
}

/// Runs one case on its own tokio runtime; passes if `open` returns no store.
///
/// # Panics
/// If the case fails.
pub fn run_case<S: StoreUnderTest>(case: impl AsyncFnOnce(&dyn StoreUnderTest), open: impl AsyncFnOnce() -> Option<S>) {
    super::run_on_own_runtime(pin!(async {
        if let Some(under_test) = open().await {
            case(&under_test).await;
        }
    }));
}
