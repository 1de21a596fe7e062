//! The INSERT of each database: own query fragments with fixed text, binding built-in types only.
//!
//! Rejected: `diesel::insert_into(..).values(&vec)` and `sql_query`, which the drivers' statement caches do not hold, so
//! that each enqueue costs a second round trip.

#[cfg(feature = "mysql")]
pub(super) mod mysql;
#[cfg(feature = "postgres")]
pub(super) mod postgres;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;

use std::time::SystemTime;

use diesel::result::Error;

use super::encode::Encoded;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use super::error::EnqueueError;
use crate::clock::millis;
use crate::lane::lane_column;
use crate::limits::ENQUEUE_BYTES_MAX;
use crate::message::Delivery;

/// Messages for one statement.
#[derive(Debug, Clone, Copy)]
pub struct Insertion<'a> {
    /// The table, with its schema.
    pub(crate) table: &'a str,
    /// The messages, in order.
    pub(crate) rows: &'a [Encoded],
    /// Whether the rows are born leased to this process.
    pub(crate) leased: bool,
    /// Whether the connection counts a transaction as open.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "MariaDB alone can say that it is over"))]
    pub(crate) in_transaction: bool,
    /// The depth of the transaction of the outbox's own that these are the last statements of: it was flagged there.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "PostgreSQL alone looks for the mark in the INSERT")
    )]
    pub(crate) flagged: Option<u32>,
}

/// What the database says of a row it inserted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inserted {
    /// The primary key, where the database returns it.
    pub(crate) id: Option<i64>,
    /// The row's `created_at`, where it was asked for.
    pub(crate) created_at: Option<SystemTime>,
}

/// What differs between the databases beside the statement itself.
pub trait Dialect {
    /// How many rows one statement takes; each number is a statement text, so they are few. Empty where a statement takes
    /// any number.
    #[doc(hidden)]
    const ROW_COUNTS: &'static [usize];

    /// Whether a row that was inserted, with the COMMIT right behind it answered, is proven by that.
    #[doc(hidden)]
    const COMMIT_VERIFIES_INSERT: bool = false;

    /// Whether a deadlock rolls back the whole transaction, whatever savepoints it has.
    #[doc(hidden)]
    const DEADLOCK_ENDS_TRANSACTION: bool = false;

    /// SQL that marks the transaction or savepoint that has just begun at this depth. The mark ends with it, whatever ends
    /// it, and where it is gone the transaction is another one, or none.
    #[doc(hidden)]
    fn transaction_flag_sql(_depth: u32) -> Option<String> {
        None
    }

    /// Whether the mark travels with BEGIN in one text.
    #[doc(hidden)]
    const FLAG_WITH_BEGIN: bool = false;

    /// Takes the mark away before the last INSERT, and fails where it is gone. None where the INSERT looks itself.
    #[doc(hidden)]
    const CLEAR_FLAG: Option<&'static str> = None;

    /// Fails inside a transaction, and does nothing outside. None where an INSERT tells by itself, or nothing does.
    #[doc(hidden)]
    const PROBE: Option<&'static str> = None;

    /// Whether one INSERT may store some of its rows and leave out others without an error, as a trigger has it.
    #[doc(hidden)]
    const INSERT_MAY_BE_PARTIAL: bool = false;

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

    /// Whether the statement failed because a row of its own is missing.
    #[doc(hidden)]
    fn is_row_removed_error(_error: &Error) -> bool {
        false
    }
}

/// Whether the database's message has `text`.
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
    /// As an error where fewer rows were stored than there are: the first whose row is missing.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(super) fn removed(&self, is_missing: impl Fn(&Encoded) -> bool) -> Error {
        let missing = self.rows.iter().find(|row| is_missing(row)).or(self.rows.first());
        EnqueueError::RowRemoved { topic: missing.map_or_else(String::new, |row| row.topic.to_string()) }.into()
    }

    /// Whether a row is in a lane. Statements of such rows have a text of their own, so that others bind nothing more.
    fn has_lanes(&self) -> bool {
        self.rows.iter().any(|row| row.lane.is_some())
    }

    /// Whether a row is delayed. Likewise a text of its own.
    fn has_delays(&self) -> bool {
        self.rows.iter().any(|row| row.delivery != Delivery::Now)
    }

    /// What the transaction locks first, ascending: transactions that lock the same in another order would wait for each
    /// other.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn key_locks(&self) -> Vec<i64> {
        let mut locks: Vec<i64> = self.rows.iter().filter_map(|row| row.key_lock).collect();
        locks.sort_unstable();
        locks.dedup();
        locks
    }
}

/// A message as it is bound. Fields are of the types that Diesel binds, because binds are borrowed from them.
struct Binds<'a> {
    #[cfg(feature = "postgres")]
    message_id: &'a uuid::Uuid,
    /// The same for databases without a type for it.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    message_id_bytes: &'a [u8],
    topic: &'a str,
    key: Option<&'a str>,
    kind: &'a str,
    headers: &'a str,
    payload: Option<&'a [u8]>,
    /// How long the row belongs to this process.
    lease_ms: i64,
    /// How long after the INSERT it is to be delivered.
    delay_ms: Option<i64>,
    /// Or when, from 1970.
    deliver_at_ms: Option<i64>,
    /// As the column has it.
    lane: i32,
}

impl<'a> Binds<'a> {
    fn new(row: &'a Encoded, leased: bool) -> Self {
        let lease_ms = if leased { millis(row.staleness) } else { 0 };
        let (delay_ms, deliver_at_ms) = match row.delivery {
            Delivery::Now => (None, None),
            // A delay of less than a millisecond is one, or the hook would send it.
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
