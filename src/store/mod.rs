//! The port to the database: what the relay asks of it, and nothing about how.
//!
//! A store holds rows in one column's regime: a row may be taken by a sweeper from its `due_at` on; until then it
//! belongs to whoever set it. Every instant is of the database's clock, every write of an outcome names
//! `(id, message_id)` (or the message id and where the row stands, as long as it is locked there), and a write under an epoch changes nothing where the row has another one.

mod admin;
pub(crate) mod dead_letter;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod decode;
mod error;
mod half;
mod history;
mod horizon;
pub(crate) mod lane_check;
pub(crate) mod lanes;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
mod notices;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod pause_table;
mod poll;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod requeue;
mod row;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod schema;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stored;

pub use crate::retention::Keep;
pub use admin::{AdminStore, CancelOutcome, PausedTopic, SendNowOutcome};
pub use dead_letter::{DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, FailureNote};
pub use error::{SchemaProblem, StoreError};
pub use half::{Decision, HalfStore};
pub use history::{HistoryRow, HistoryStore, ProcessedOutcome, Pruned, SentCount, SentCursor, SentMessage};
pub use horizon::Horizon;
pub use lanes::{
    LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneState, LaneStore, LaneView, OwnedLane, WithFence,
};
pub use memory::{Call, Fault, InsertOptions, MemoryClaim, MemoryStore, PendingRow, RowLock};
#[cfg(feature = "mysql")]
pub use mysql::MysqlStore;
pub use notices::{NoticeStore, NoticeStream};
pub use poll::{DueWatermark, NextDue, PollFrom, PollRange, PollResult, PollSpec, PollTopic};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use pool::ConnectionPool;
#[cfg(feature = "postgres")]
pub(crate) use postgres::pg_instant;
#[cfg(feature = "postgres")]
pub use postgres::{NoticeConnection, PostgresStore};
pub use requeue::{MessageKey, Requeue};
pub use row::{Confirmed, Failed, Held, Loaded, Locking, NewDeadLetter, Poisoned, Row, RowKey, RowRef};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use sql::SqlStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{SQLITE_SET_UP, SqliteStore};
pub use stored::{DeadLetterRow, LiveRow, StoredError};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::limits::DELAY_MAX;
use crate::naming::TableNames;

/// A database that holds an outbox.
///
/// To implement one, write `#[async_trait]` ([`diesel_outbox::async_trait`](crate::async_trait)) over it, and hold it to the
/// public conformance suite (feature `testing`). Every method is bounded in time by the
/// implementation ([`STATEMENT_TIMEOUT`](crate::limits::STATEMENT_TIMEOUT)); after a time-out the connection is never reused; it keeps
/// its place in the pool until the server has answered.
///
/// # Errors
/// Where a method says nothing else, that the database could not be asked, did not answer in time, or refused ([`StoreError`]).
///
/// # Cancel safety
/// A dropped future may or may not have had its effect: all statements are written so that repeating them is harmless.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Says where the tables are. [`RelayBuilder::store`](crate::relay::RelayBuilder::store) passes on the names that its
    /// outbox writes to, before any other call; a store that nobody told works on the default ones.
    ///
    /// Without a default, so that no implementation overlooks it: rows would be written under one name and looked for
    /// under another, in silence where both are there. A store that has no tables does nothing.
    fn use_tables(&mut self, names: &TableNames);

    /// Looks whether the tables are there and of this version, and whether the database keeps what it commits.
    ///
    /// # Errors
    /// [`StoreError::Schema`] says what is missing; anything else means that the database could not be asked.
    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError>;

    /// Reads handed-over rows by primary key: those of `refs` that are there, never claimed (`epoch` 0), and not delayed.
    ///
    /// This read, and not the commit hook, is the proof that a transaction committed.
    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError>;

    /// Those of `refs` that are there still, whoever has them and whatever they wait for.
    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError>;

    /// Takes due rows of one topic, oldest first, passing over what others hold locked.
    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError>;

    /// Removes delivered rows, whatever their epoch, and returns those that were removed.
    ///
    /// With [`Locking::Skip`] rows locked by others are passed over and not returned; with [`Locking::Wait`] they are
    /// waited for.
    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError>;

    /// Removes delivered rows that meanwhile became dead letters; returns how many. By id and message id: a message that was sent
    /// again died under another id, and that dead letter is of the later copy.
    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError>;

    /// Extends the lease of held rows to `lease` from now; returns those extended.
    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError>;

    /// Notes failures: due after the wait, under the next epoch, with the error kept. Returns those noted.
    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError>;

    /// Moves given-up rows to the dead letters. Returns those that left the live table: where the message is a dead letter
    /// already, that one stays as it is and the row goes all the same.
    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError>;

    /// When the earliest row of each topic is due, and which of them are paused. One statement: an idle relay asks for nothing
    /// else, and bounds it, so it has to read no index entry outside of these bounds.
    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError>;

    /// Counts live rows and dead letters: of every topic that has any, also of those that no relay is configured for.
    ///
    /// For people and alerts: never called by the relay itself. Counting a topic's live rows, oldest first, stops at
    /// `count_max`, and so does counting its dead letters; indexes are read for it, and no payloads.
    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError>;

    /// The part of the port that ordered topics need; `None` in a store that knows no lanes, with which a relay of an
    /// ordered topic does not start.
    fn lanes(&self) -> Option<&dyn LaneStore> {
        None
    }

    /// The part of the port that half messages need; `None` in a store that keeps no marks of them.
    fn halves(&self) -> Option<&dyn HalfStore> {
        None
    }

    /// The part of the port that topics need which keep what was sent, or age dead letters out; `None` in a store that keeps
    /// nothing, with which a relay of such a topic does not start.
    fn history(&self) -> Option<&dyn HistoryStore> {
        None
    }

    /// The part of the port by which relays wake each other; `None` in a store whose relays find what others committed by
    /// their poll.
    fn notices(&self) -> Option<&dyn NoticeStore> {
        None
    }

    /// The part of the port by which people look after single messages; `None` in a store that has none of it.
    fn admin(&self) -> Option<&dyn AdminStore> {
        None
    }
}

/// What to claim.
#[derive(Debug, Clone)]
pub struct ClaimSpec {
    /// Of which topic.
    pub topic: Arc<str>,
    /// Rows due at or before this are known to be gone or held: a hint that spares walking over dead index entries.
    pub after: Option<DueWatermark>,
    /// At most so many rows.
    pub rows_max: usize,
    /// At most so many bytes of payload, but always one row.
    pub bytes_max: usize,
    /// How long locked rows stay locked; the store makes the database end the claim soon after by itself.
    pub lock_duration: Duration,
    /// How long rows are leased, by a store that leases at the claim and for what is held at its close.
    pub lease_duration: Duration,
    /// Slack of the watermark that the claim returns.
    pub watermark_slack_duration: Duration,
    /// How the close keeps what was delivered; `None` where it deletes. Only for a store with a
    /// [history](Store::history).
    pub keep: Option<Keep>,
}

/// Claimed rows, and what to do with them in the end.
#[derive(Debug)]
pub struct Claim {
    /// The rows, oldest first.
    pub rows: Vec<Loaded>,
    /// How the rows are held until the batch is closed.
    pub mode: ClaimMode,
    /// Where the next claim may begin: nothing of the topic is left below it, claimed, locked by others or free. Told also
    /// where the claim was cut, if the store can, so that a drain does not walk over what it has removed.
    pub watermark: Option<DueWatermark>,
    /// Just below the last row claimed, if the store can tell: the next claim of the same pass may begin there, and need
    /// not walk over what this one holds or has removed. Unlike the watermark it passes by what others hold, so the end
    /// of a pass begins at the watermark again.
    pub reached: Option<DueWatermark>,
    /// Whether the claim took all that was due and free: neither its rows nor its bytes cut it.
    pub found_all: bool,
    /// Closes the claim.
    pub handle: Box<dyn ClaimHandle>,
}

/// How the rows of an open claim are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// By row locks of an open transaction: until its term is over.
    Locked,
    /// By a lease that the claim wrote (`epoch` is already the new one): until it ends.
    Leased,
}

/// An open claim. Dropping it gives its rows back; leased ones when their lease ends.
#[async_trait]
pub trait ClaimHandle: fmt::Debug + Send {
    /// Ends the claim in one transaction: `delivered` rows are removed; `held` ones, handed to the transport and not yet
    /// answered, become leased under the next epoch; every other row is given back: unwritten where it was locked, due now
    /// and under the next epoch where the claim had leased it.
    ///
    /// # Errors
    /// Nothing may be assumed of any row then: what was delivered must be settled outside, by id.
    ///
    /// # Cancel safety
    /// As after an error.
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError>;
}

/// What closing a claim did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// Rows removed: each of those that were delivered once at most, and no others.
    pub settled: Vec<RowKey>,
    /// Rows now leased, each under its new epoch.
    pub held: Vec<Held>,
}

/// For how long a row has waited that has been due for so long. One that is due for longer than messages live was made so by
/// somebody's own hand (PostgreSQL's `-infinity`, the year 0): it is due, and how long it has waited is not told by that.
pub(crate) fn overdue(by: Duration) -> Duration {
    if by > DELAY_MAX { Duration::ZERO } else { by }
}

/// What of a topic is in the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicBacklog {
    /// The topic.
    pub topic: Arc<str>,
    /// Rows not settled yet: those that are due, those that somebody holds or that wait for their next attempt, and those
    /// of an ordered topic, which are the owner's of their lane and never due.
    pub live: usize,
    /// Those of them that are due. Nobody holds them, except for an open claim that has just locked them.
    pub due: usize,
    /// For how long the oldest of them has been due; zero where none is. A relay adds what it knows of its lanes.
    pub overdue_by: Duration,
    /// Dead letters.
    pub dead: usize,
}

/// A setting of the database under which a guarantee does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreWarning {
    /// A crash of the database can lose commits it has answered, and with them the proof that a message was to be sent.
    NotDurable {
        /// The setting that says so.
        setting: &'static str,
    },
    /// Several nodes of the database take writes, and row locks hold on one of them only: relays on two nodes send the same messages,
    /// and the ids that order lanes are not in the order of the commits.
    MultiplePrimaries {
        /// The setting that says so.
        setting: &'static str,
    },
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDurable { setting } => {
                write!(
                    f,
                    "{setting}: a crash of the database can lose commits, so a message may be sent whose row is gone"
                )
            }
            Self::MultiplePrimaries { setting } => {
                write!(
                    f,
                    "{setting}: several nodes may take writes, and a row lock holds on one of them only. Let every relay, and whatever \
                     enqueues to ordered topics, reach one and the same node: otherwise each swept message may be sent twice, and a key \
                     may lose its order"
                )
            }
        }
    }
}
