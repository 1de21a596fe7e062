//! The INSERT of each database: our own query fragments with fixed text, with binds of built-in types only.
//!
//! Rejected: `diesel::insert_into(..).values(&vec)` and `sql_query`. The drivers' statement caches do not keep them, so
//! each enqueue would cost a second round trip.

#[cfg(feature = "mysql")]
pub(super) mod mysql;
#[cfg(feature = "postgres")]
pub(super) mod postgres;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;
pub(super) mod still_there;

use std::time::SystemTime;

use diesel::result::Error;

use super::encode::Encoded;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use super::error::EnqueueError;
use crate::clock::millis;
use crate::inbox::prune_sql::PruneSql;
use crate::lane::lane_column;
use crate::limits::ENQUEUE_BYTES_MAX;
use crate::message::Delivery;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::migrations::{EmbeddedMigrations, making};

/// The table of messages, without the prefix.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
const MESSAGES: &str = "messages";

/// The name of a table without its schema.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn without_schema(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or_default()
}

/// [`Dialect::CHECKED_COMMIT`] of PostgreSQL.
pub(crate) const POSTGRES_CHECKED_COMMIT: &str = "SELECT 1; COMMIT";

/// The same of MySQL and MariaDB: an overflow, which is an error in every SQL mode. Not DO, which ignores errors.
pub(crate) const MYSQL_CHECKED_COMMIT: &str =
    "SELECT /*M! IF(~0 + (1 - @@in_transaction), */ 0 /*M! , NULL) */; COMMIT";

/// Messages for one statement.
#[derive(Debug, Clone, Copy)]
pub struct Insertion<'a> {
    /// The table, with its schema.
    pub(crate) table: &'a str,
    /// The messages, in order.
    pub(crate) rows: &'a [Encoded],
    /// The messages whose keys are locked first. The first statement of a call locks those of all its messages: if each
    /// statement locked its own, two calls with the same keys in opposite orders would deadlock.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "SQLite has one writer at a time")
    )]
    pub(crate) locked: &'a [Encoded],
    /// Whether the rows start out leased to this process.
    pub(crate) leased: bool,
    /// Whether the connection counts a transaction as open.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "only MariaDB can report that it is over"))]
    pub(crate) in_transaction: bool,
    /// The depth of the outbox's own transaction that this statement ends. The transaction was flagged at that depth.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL checks the flag in the INSERT"))]
    pub(crate) flagged: Option<u32>,
}

/// What the database returns for an inserted row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inserted {
    /// The primary key, if the database returns it.
    pub(crate) id: Option<i64>,
    /// The row's `created_at`, if it was requested.
    pub(crate) created_at: Option<SystemTime>,
}

/// The differences between the databases, apart from the statement itself.
pub trait Dialect {
    /// The allowed numbers of rows in one statement. They are few, because each is its own statement text. Empty if a
    /// statement takes any number.
    #[doc(hidden)]
    const ROW_COUNTS: &'static [usize];

    /// Whether a successful INSERT verifies the successful COMMIT right after it.
    #[doc(hidden)]
    const COMMIT_VERIFIES_INSERT: bool = false;

    /// Whether a deadlock rolls back the whole transaction, including its savepoints.
    #[doc(hidden)]
    const DEADLOCK_ENDS_TRANSACTION: bool = false;

    /// SQL that flags the transaction or savepoint that has just begun at this depth. The flag ends with it, however it
    /// ends. If the flag is gone, the transaction is another one, or none.
    #[doc(hidden)]
    fn transaction_flag_sql(_depth: u32) -> Option<String> {
        None
    }

    /// Whether the flag is sent with BEGIN in one text.
    #[doc(hidden)]
    const FLAG_WITH_BEGIN: bool = false;

    /// Removes the flag before the last INSERT, and fails if it is gone. `None` if the INSERT checks it.
    #[doc(hidden)]
    const CLEAR_FLAG: Option<&'static str> = None;

    /// Fails inside a transaction, and does nothing outside. `None` if an INSERT shows it, or nothing can.
    #[doc(hidden)]
    const PROBE: Option<&'static str> = None;

    /// Whether a failed statement ends its transaction: only a rollback is possible then.
    #[doc(hidden)]
    const ERRORS_END_TRANSACTION: bool = false;

    /// COMMIT behind a statement that fails where COMMIT alone would succeed and keep nothing: a failed statement was ignored, or the
    /// transaction is already over. `None` if COMMIT fails by itself.
    #[doc(hidden)]
    const CHECKED_COMMIT: Option<&'static str> = None;

    /// Whether a connection can tell that one of its rows is committed, even if the row's transaction may still be open on it.
    #[doc(hidden)]
    const CAN_CHECK_OWN_ROWS: bool = true;

    /// Whether one INSERT may store some of its rows and drop others without an error, for instance because of a
    /// trigger.
    #[doc(hidden)]
    const INSERT_MAY_BE_PARTIAL: bool = false;

    /// The statements that remove entries of an inbox.
    #[doc(hidden)]
    const INBOX_PRUNE: &'static PruneSql;

    /// Whether the statement refused to run because its transaction is over.
    #[doc(hidden)]
    fn is_transaction_lost_error(_error: &Error) -> bool {
        false
    }

    /// Whether [`PROBE`](Self::PROBE) failed because it is inside a transaction.
    #[doc(hidden)]
    fn is_in_transaction_error(_error: &Error) -> bool {
        false
    }

    /// Whether ROLLBACK failed because no transaction was open.
    #[doc(hidden)]
    fn is_not_in_transaction_error(_error: &Error) -> bool {
        false
    }

    /// Whether the statement failed because one of its rows is missing.
    #[doc(hidden)]
    fn is_row_removed_error(_error: &Error) -> bool {
        false
    }
}

/// Whether the database's message contains `text`.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn message_contains(error: &Error, text: &str) -> bool {
    matches!(error, Error::DatabaseError(_, information) if information.message().contains(text))
}

/// How many of `rows` the next statement takes.
pub(crate) fn next_statement_rows<B: Dialect + ?Sized>(rows: &[Encoded]) -> usize {
    let mut bytes = 0;
    let fitting = rows.iter().take_while(|row| {
        bytes += row.bytes;
        bytes <= ENQUEUE_BYTES_MAX
    });
    let count = fitting.count().max(1).min(rows.len());
    B::ROW_COUNTS.iter().copied().find(|rows| *rows <= count).unwrap_or(count)
}

impl Insertion<'_> {
    /// The error for missing rows: it names the first message whose row is missing.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(super) fn removed(&self, is_missing: impl Fn(&Encoded) -> bool) -> Error {
        let missing = self.rows.iter().find(|row| is_missing(row)).or(self.rows.first());
        EnqueueError::RowRemoved { topic: missing.map_or_else(String::new, |row| row.topic.to_string()) }.into()
    }

    /// The error for a missing table that the statement writes to. `name` has no prefix.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    fn table_missing<DB: EmbeddedMigrations>(&self, name: &str) -> Error {
        EnqueueError::TableMissing {
            topic: self.rows.first().map_or_else(String::new, |row| row.topic.to_string()),
            table: self.sibling(name),
            migration: making::<DB>(name),
        }
        .into()
    }

    /// A table of the same outbox: all of them share one prefix and one schema.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    fn sibling(&self, name: &str) -> String {
        format!("{}{name}", self.table.strip_suffix(MESSAGES).unwrap_or_default())
    }

    /// Whether a row has a lane. Such statements have their own text, so that others have no extra binds.
    fn has_lanes(&self) -> bool {
        self.rows.iter().any(|row| row.lane.is_some())
    }

    /// Whether a row is delayed. Such statements have their own text, too.
    fn has_delays(&self) -> bool {
        self.rows.iter().any(|row| row.delivery != Delivery::Now)
    }

    /// The keys that the transaction locks first, ascending: transactions that lock them in different orders would
    /// deadlock.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn key_locks(&self) -> Vec<i64> {
        let mut locks: Vec<i64> = self.locked.iter().filter_map(|row| row.key_lock).collect();
        locks.sort_unstable();
        locks.dedup();
        locks
    }
}

/// A message's bind values. Their types are those that Diesel binds, because binds borrow them.
struct Binds<'a> {
    #[cfg(feature = "postgres")]
    message_id: &'a uuid::Uuid,
    /// The same for databases without a uuid type.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    message_id_bytes: &'a [u8],
    topic: &'a str,
    key: Option<&'a str>,
    kind: &'a str,
    headers: &'a str,
    payload: Option<&'a [u8]>,
    /// How long the row is leased to this process.
    lease_ms: i64,
    /// How long after the INSERT it is due.
    delay_ms: Option<i64>,
    /// Or when it is due, counted from 1970.
    deliver_at_ms: Option<i64>,
    /// The value of the lane column.
    lane: i32,
}

impl<'a> Binds<'a> {
    fn new(row: &'a Encoded, leased: bool) -> Self {
        let lease_ms = if leased { millis(row.staleness) } else { 0 };
        let (delay_ms, deliver_at_ms) = match row.delivery {
            Delivery::Now => (None, None),
            // A delay below a millisecond still counts as one: otherwise the hook would send the message.
            Delivery::After(delay) => (Some(millis(delay).max(1)), None),
            Delivery::At(at) => (None, Some(millis(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))),
        };
        Self {
            #[cfg(feature = "postgres")]
            message_id: row.message_id.as_uuid(),
            #[cfg(any(feature = "mysql", feature = "sqlite"))]
            message_id_bytes: row.message_id.as_uuid().as_bytes(),
            topic: &row.topic,
            key: row.key.as_deref(),
            kind: &row.kind,
            headers: &row.headers_json,
            payload: row.payload.as_deref(),
            lease_ms,
            delay_ms,
            deliver_at_ms,
            lane: lane_column(row.lane),
        }
    }
}
