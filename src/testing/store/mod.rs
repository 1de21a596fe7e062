//! What every [`Store`] has to do, as cases that it can be held to.
//!
//! Bring the other side of the database as a [`StoreUnderTest`]: a way to write rows as enqueue does, to lock them from
//! another session, and to read them back. [`store_conformance_tests!`](crate::store_conformance_tests) then makes one
//! `#[test]` of each case; [`run_all`] runs them in one go.
//!
//! ```
//! # mod held {
//! use diesel_outbox::testing::store::MemoryUnderTest;
//!
//! async fn open() -> Option<MemoryUnderTest> {
//!     Some(MemoryUnderTest::locking())
//! }
//!
//! diesel_outbox::store_conformance_tests!(open);
//! # }
//! ```
//!
//! Cases assert and panic. They pass over what a database does not have: where [`StoreUnderTest::lock`] returns `None`
//! there are no row locks to respect, and where [`Store::lanes`] or [`Store::halves`] returns `None` there are no lanes or marks
//! to keep.

pub mod cases;
mod list;
mod memory;
mod support;

pub use list::CASES;
pub use memory::MemoryUnderTest;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::FutureExt as _;

use crate::message::{Envelope, MessageId};
use crate::store::{DeadLetterRow, InsertOptions, LiveRow, RowKey, Store};

/// A store over tables that are empty and nobody else's, and the other side of its database.
///
/// Methods panic where the database does not do what they need: that is no case of the store.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Writes a committed row as enqueue does; the database sets `created_at`.
    async fn insert(&self, envelope: &Envelope, options: InsertOptions) -> RowKey;

    /// Writes a row in a transaction of another session that stays open.
    async fn insert_uncommitted(&self, envelope: &Envelope) -> (RowKey, Box<dyn OpenTransaction>);

    /// Locks a row from another session; `None` where the database has no row locks.
    async fn lock(&self, key: RowKey) -> Option<Box<dyn OpenTransaction>>;

    /// Spoils a row in a way the table allows, so that it cannot be decoded: headers that are no JSON, for example.
    async fn poison(&self, key: RowKey);

    /// The live rows, by id.
    async fn live_rows(&self) -> Vec<LiveRow>;

    /// The dead letters.
    async fn dead_letter_rows(&self) -> Vec<DeadLetterRow>;

    /// The database's clock.
    async fn now(&self) -> SystemTime;

    /// Marks a half message as the first statement of a transaction that stays open; `None` where it has a mark already, which
    /// is refused. Not called where [`Store::halves`] returns `None`.
    async fn mark(&self, message: MessageId, marking: Marking) -> Option<Box<dyn OpenTransaction>> {
        panic!("this store keeps marks, and the suite has no way to write one: {marking:?} of {message}")
    }

    /// Makes time pass for the rows: moves the clock on, or every `due_at`, and the age of every mark, back. Never called with a transaction or a
    /// claim open, nor between the making and the use of a watermark.
    async fn advance(&self, by: Duration);
}

/// How a half message is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marking {
    /// By the transaction itself.
    InTransaction,
    /// In a savepoint of it that is rolled back, while the transaction goes on.
    InRolledBackSavepoint,
}

/// A transaction of another session. Dropping it rolls it back, at some time.
#[async_trait]
pub trait OpenTransaction: Send {
    /// Commits it; its locks are gone when this returns.
    async fn commit(self: Box<Self>);

    /// Rolls it back; its locks are gone when this returns.
    async fn roll_back(self: Box<Self>);
}

/// One clause of the port's documentation.
#[derive(Clone, Copy)]
pub struct Case {
    /// What the clause says; also the name of its function in [`cases`].
    pub name: &'static str,
    /// Looks whether it holds, and panics where it does not. Wants empty tables.
    pub run: fn(&dyn StoreUnderTest) -> CaseFuture<'_>,
}

/// A case on its way.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs every case, each on a store of its own from `open`.
///
/// ```
/// use diesel_outbox::testing::store::{MemoryUnderTest, run_all};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// run_all(async || MemoryUnderTest::leasing()).await;
/// # });
/// ```
///
/// # Panics
/// When all have run and some failed: with their names.
pub async fn run_all<S: StoreUnderTest>(open: impl AsyncFn() -> S) {
    let mut failed = Vec::new();
    for case in CASES {
        let under_test = open().await;
        // What panicked is dropped, and with it whatever state it left behind.
        if AssertUnwindSafe((case.run)(&under_test)).catch_unwind().await.is_err() {
            failed.push(case.name);
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed: {}", failed.len(), CASES.len(), failed.join(", "));
}

/// Runs one case on a tokio runtime of its own; passes where `open` has no store to test.
///
/// # Panics
/// When the case fails.
pub fn run_case<S: StoreUnderTest>(case: impl AsyncFnOnce(&dyn StoreUnderTest), open: impl AsyncFnOnce() -> Option<S>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a tokio runtime");
    runtime.block_on(async {
        if let Some(under_test) = open().await {
            case(&under_test).await;
        }
    });
}
