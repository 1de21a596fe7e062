//! The consumer's inbox: handles each message once, although copies of it arrive.
//!
//! An outbox delivers at least once, as every broker does. The inbox makes "once" of it: it writes the message's id in the transaction in
//! which the handler works. Both commit, or neither does.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use diesel::prelude::*;
//! use diesel_outbox::MessageId;
//! use diesel_outbox::inbox::{Inbox, Once};
//!
//! # let mut conn = SqliteConnection::establish(":memory:")?;
//! # diesel::sql_query("CREATE TABLE invoices (order_id integer)").execute(&mut conn)?;
//! let inbox = Inbox::builder("billing").keep_days(14).build()?;
//! inbox.migrate(&mut conn)?; // creates the inbox's tables
//!
//! let message_id = MessageId::new(); // from the record's header `outbox-message-id`
//! for expected in [Once::Done(1), Once::Duplicate] {
//!     let once = inbox.once(&mut conn, message_id, |conn| {
//!         diesel::sql_query("INSERT INTO invoices VALUES (42)").execute(conn)
//!     })?;
//!     assert_eq!(once, expected);
//! }
//! # }
//! # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! The [guide](crate::guide::inbox) has batches, retention, and ids of other producers.

// Without a database feature nothing can be claimed, and this code is unused.
#![cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(unused))]

#[cfg(feature = "async")]
mod asynchronous;
mod builder;
pub(crate) mod claims;
mod error;
#[cfg(all(
    any(feature = "kafka", feature = "rocketmq"),
    any(feature = "postgres", feature = "mysql", feature = "sqlite"),
    any(feature = "r2d2", feature = "deadpool", feature = "bb8", feature = "mobc")
))]
mod find;
mod key;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod migrate;
#[cfg(all(feature = "async", any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
mod migrate_async;
mod once;
mod outcomes;
#[cfg(all(feature = "async", feature = "postgres"))]
mod pipeline;
mod prune;
#[cfg(feature = "async")]
mod prune_async;
pub(crate) mod prune_sql;
pub(crate) mod statement;

pub use builder::{InboxBuildError, InboxBuilder};
pub use error::InboxError;
pub use key::InboxKey;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::naming::TableNames;

/// Recognises the copies of messages for one consumer.
///
/// Cheap to clone: clones share everything. From [`Inbox::builder`]. The [module](self) has an example.
#[derive(Debug, Clone)]
pub struct Inbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    consumer: String,
    /// The consumer's number in the tables.
    number: i64,
    keep_days: u32,
    tables: TableNames,
    /// The table of entries, with its schema.
    entries: String,
    /// Where its start is, with the schema.
    start: String,
    /// The last start that a claim has seen; beyond all times before the first one.
    seen_start_ms: AtomicI64,
}

impl Inbox {
    /// The consumer's name.
    pub fn consumer(&self) -> &str {
        &self.inner.consumer
    }

    /// For how many days entries are kept at least.
    pub fn keep_days(&self) -> u32 {
        self.inner.keep_days
    }

    /// The names of the tables.
    pub fn tables(&self) -> &TableNames {
        &self.inner.tables
    }
}

/// What [`Inbox::once`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once<T> {
    /// The handler ran, and its transaction committed.
    Done(T),
    /// The message was handled before: nothing was done. Acknowledge it.
    Duplicate,
}

/// What [`Inbox::claim`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a duplicate must not be handled"]
pub enum Claim {
    /// The message is new: handle it in this transaction.
    New,
    /// The message was handled before: do nothing, and acknowledge it.
    Duplicate,
}

/// What [`Inbox::prune`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The entries that were deleted one by one. Those of dropped partitions are not counted.
    pub entries: usize,
    /// Whether there is more to delete.
    pub has_more: bool,
}
