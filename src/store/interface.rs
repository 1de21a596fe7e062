//! The interface of a store: what the relay needs from a database.
//!
//! One column rules: from a row's `due_at` on a sweeper may take it; until then it belongs to whoever set that. Every instant is of
//! the database's clock. Every write of an outcome names `(id, message_id)`, or the message id and the row's physical position
//! while the row is locked. A write under an epoch changes nothing if the row's epoch differs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;

use super::admin::AdminStore;
use super::audit::AuditStore;
use super::half::HalfStore;
use super::history::HistoryStore;
use super::lanes::LaneStore;
use super::notices::NoticeStore;
use super::parked::ParkedStore;
use super::poll::{DueWatermark, PollResult, PollSpec};
use super::row::{Confirmed, Failed, Held, Loaded, Locking, NewDeadLetter, RowKey, RowRef};
use super::{StoreError, TooFewConnections};
use crate::clock::{Clock, SystemClock};
use crate::limits::DELAY_MAX;
use crate::naming::TableNames;
use crate::retention::Keep;
use crate::serialize::seconds;

/// A database that holds an outbox.
///
/// Users see it as [`OutboxStore`](super::OutboxStore), which shows none of this. The suite `testing::store` tests every
/// implementation. The implementation bounds every method in time ([`STATEMENT_TIMEOUT`](crate::limits::STATEMENT_TIMEOUT)).
/// After a time-out the connection is never reused, and keeps its place in the pool until the server has answered.
///
/// # Errors
/// Unless a method says otherwise: the database could not be reached, did not answer in time, or refused ([`StoreError`]).
///
/// # Cancel safety
/// A dropped future may or may not have had its effect. Repeating any statement is harmless.
// A method with a default also goes into `measured`, which would hide it otherwise.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The name of its database in metrics.
    fn name(&self) -> &'static str;

    /// Sets the names of the tables. [`RelayBuilder::store`](crate::relay::RelayBuilder::store) passes on the names of its outbox
    /// before any other call; without that, a store uses the default names.
    ///
    /// There is no default method, so that no implementation forgets it: rows would silently be written under one name and read
    /// under another. A store without tables does nothing.
    fn use_tables(&mut self, names: &TableNames);

    /// Checks that the tables exist and have this version, and that the database keeps what it commits.
    ///
    /// # Errors
    /// [`StoreError::Schema`] says what is missing; any other error means that the database could not be reached.
    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError>;

    /// Tells the store how many connections a relay needs at least, and how many it can use at once. A relay calls
    /// this first. The default does nothing.
    ///
    /// # Errors
    /// The store's pool has fewer than the relay needs.
    fn reserve_connections(&self, needed: usize, most: usize) -> Result<(), TooFewConnections> {
        let _ = (needed, most);
        Ok(())
    }

    /// Reads handed-over rows by primary key: those of `refs` that exist, were never claimed (`epoch` 0), and are not delayed.
    ///
    /// This read, not the commit hook, proves that a transaction committed.
    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError>;

    /// Those of `refs` that still exist, whoever holds them and whatever they wait for.
    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError>;

    /// Takes due rows of one topic, oldest first, and skips rows that others have locked.
    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError>;

    /// Removes delivered rows, whatever their epoch, and returns those that were removed.
    ///
    /// With [`Locking::Skip`], rows that others have locked are skipped and not returned. With [`Locking::Wait`], the call waits
    /// for them.
    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError>;

    /// Waits until what was settled before survives a crash of the database. Only PostgreSQL settles without waiting for its disk.
    async fn flush_settled(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes delivered rows that were dead-lettered meanwhile; returns how many. By id and message id: a message that was
    /// requeued has another row id, and its dead letter belongs to the later copy.
    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError>;

    /// Extends the lease of held rows to `lease` from now; returns those extended.
    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError>;

    /// Records failures: due after the wait, under the next epoch, with the error stored. Returns the rows recorded.
    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError>;

    /// Moves rows to the dead letters. Returns those that left the live table. If the message is a dead letter already, that dead
    /// letter stays and the row is removed all the same.
    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError>;

    /// Reads when the earliest row of each topic is due, and which topics are paused. It is one statement, and most
    /// of what an idle relay asks. The caller bounds the range, so the store need not read index entries outside of it.
    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError>;

    /// Counts live rows and dead letters of every topic that has any, including topics that no relay is configured for.
    ///
    /// For people and alerts: it decides nothing. A relay calls it for its gauges, each
    /// [`Limits::backlog_interval`](crate::Limits::backlog_interval). It counts a topic's live rows, oldest first, up to `count_max`, and
    /// its dead letters likewise. It reads indexes and no payloads.
    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError>;

    /// The clock by which its relay measures leases and waits.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    /// The operations for ordered topics.
    fn lanes(&self) -> &dyn LaneStore;

    /// The operations for half messages; `None` in a store without half messages.
    fn halves(&self) -> Option<&dyn HalfStore> {
        None
    }

    /// The operations for topics that keep sent messages, or delete old dead letters.
    fn history(&self) -> &dyn HistoryStore;

    /// The operations by which relays wake each other. `None` in a store whose relays find the commits of others only by polling.
    fn notices(&self) -> Option<&dyn NoticeStore> {
        None
    }

    /// The operations on single messages, for [`Admin`](crate::admin::Admin); `None` in a store that has none.
    fn admin(&self) -> Option<&dyn AdminStore> {
        None
    }

    /// The records that consumers have parked, for [`Admin`](crate::admin::Admin); `None` in a store that has none.
    fn parked(&self) -> Option<&dyn ParkedStore> {
        None
    }

    /// The record of what [`Admin`](crate::admin::Admin) has done; `None` in a store that has none.
    fn audit(&self) -> Option<&dyn AuditStore> {
        None
    }
}

/// What to claim.
#[derive(Debug, Clone)]
pub struct ClaimSpec {
    /// The topic.
    pub topic: Arc<str>,
    /// Rows due at or before this are known to be gone or held. A hint that saves reading dead index entries.
    pub after: Option<DueWatermark>,
    /// At most this many rows.
    pub rows_max: usize,
    /// At most this many bytes of payload, but always one row.
    pub bytes_max: usize,
    /// How long locked rows stay locked. The database ends the claim by itself soon after.
    pub lock_duration: Duration,
    /// How long rows are leased: by a store that leases at the claim, and for rows in flight at its close.
    pub lease_duration: Duration,
    /// Slack of the watermark that the claim returns.
    pub watermark_slack_duration: Duration,
    /// How the close keeps delivered rows; `None` if it deletes them.
    pub keep: Option<Keep>,
}

/// Claimed rows, and the handle that closes the claim.
#[derive(Debug)]
pub struct Claim {
    /// The rows, oldest first.
    pub rows: Vec<Loaded>,
    /// How the rows are held until the claim is closed.
    pub mode: ClaimMode,
    /// Where the next claim may begin: the topic has no row below it, held or free. Also returned if the claim was cut, if the
    /// store can, so that a drain does not walk over the rows it has removed.
    pub watermark: Option<DueWatermark>,
    /// Just below the last row claimed, if the store knows it. The next claim may begin there, so that it does not walk over what this
    /// one holds or has removed. It skips rows that others hold. The watermark does not, so now and then a claim must begin at the
    /// watermark.
    pub reached: Option<DueWatermark>,
    /// Whether the claim took all rows that were due and free, and was cut by no limit.
    pub found_all: bool,
    /// Closes the claim.
    pub handle: Box<dyn ClaimHandle>,
}

/// How the rows of an open claim are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// By row locks of an open transaction, until its time is over.
    Locked,
    /// By a lease that the claim wrote (`epoch` is the new one), until it expires.
    Leased,
}

/// An open claim. Dropping it releases its rows: locked ones at once, leased ones when their lease expires.
#[async_trait]
pub trait ClaimHandle: fmt::Debug + Send {
    /// Ends the claim in one transaction. `delivered` rows are removed. `held` ones, handed to the transport and not answered yet,
    /// become leased under the next epoch. Every other row is released: unwritten if it was locked, due now under the next epoch if
    /// the claim had leased it.
    ///
    /// # Errors
    /// Then nothing may be assumed of any row: what was delivered must be settled separately, by id.
    ///
    /// # Cancel safety
    /// As after an error.
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError>;
}

/// What closing a claim did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closed {
    /// Rows removed: each at most once, and no others than the delivered ones.
    pub settled: Vec<RowKey>,
    /// Rows that are now leased, each under its new epoch.
    pub held: Vec<Held>,
}

/// How long a row has been overdue. A row that is due for longer than messages live was set so by hand (PostgreSQL's `-infinity`,
/// the year 0). It is due, but that says nothing about how long it has waited.
pub(crate) fn overdue(by: Duration) -> Duration {
    if by > DELAY_MAX { Duration::ZERO } else { by }
}

/// How many rows and dead letters a topic has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TopicBacklog {
    /// The topic.
    pub topic: Arc<str>,
    /// Rows not settled yet: due ones, held ones, those that wait for their next attempt, and those of an ordered topic, which are
    /// never due.
    pub live: usize,
    /// Those of them that are due. Nobody holds them, except for an open claim that has just locked them.
    pub due: usize,
    /// How long the oldest of them has been due; zero if none is. A relay adds what it knows of its lanes.
    #[serde(rename = "overdue_seconds", serialize_with = "seconds")]
    pub overdue_by: Duration,
    /// Dead letters.
    pub dead: usize,
}

/// A setting of the database that breaks a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreWarning {
    /// A crash of the database can lose answered commits, and with them the proof that a message was to be sent.
    NotDurable {
        /// The setting at fault.
        setting: &'static str,
    },
    /// Several nodes of the database accept writes, but row locks hold on one of them only. Relays on two nodes send the same
    /// messages, and the ids that order lanes are not in commit order.
    MultiplePrimaries {
        /// The setting at fault.
        setting: &'static str,
    },
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDurable { setting } => {
                write!(
                    f,
                    "{setting}: a crash of the database can lose commits, so a message may be sent whose transaction is then lost"
                )
            }
            Self::MultiplePrimaries { setting } => {
                write!(
                    f,
                    "{setting}: several nodes accept writes, but a row lock holds on one of them only. Connect every relay, and \
                     everything that enqueues to ordered topics, to the same node: otherwise swept messages may be sent twice, and a \
                     key may lose its order"
                )
            }
        }
    }
}
