//! PostgreSQL.

mod bind;
mod check;
mod claim;
mod claim_rows;
mod columns;
mod ctid;
mod database;
mod instants;
mod notice_connection;
mod notices;
mod partitions;
mod pooler;
#[cfg(any(feature = "async", feature = "libpq"))]
mod secrets;

use std::time::Duration;

use diesel::pg::Pg;

pub(crate) use self::instants::instant as pg_instant;
pub use self::notice_connection::NoticeConnection;
use super::pool::{ConnectionPool, Connections};
use super::sql::SqlStore;
use crate::clock::millis;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{POSTGRES_PLAN_AGE_MAX, SERVER_LOCK_TIMEOUT_PERCENT, SERVER_STATEMENT_TIMEOUT_PERCENT};

/// An outbox in PostgreSQL (13 or later).
///
/// Works through sync (r2d2) and async (diesel-async) pools alike, see [`ConnectionPool`], and behind pgbouncer in session mode; in
/// transaction mode with [`transaction_pooling`](SqlStore::transaction_pooling).
///
/// ```no_run
/// # #[cfg(feature = "r2d2")] {
/// use diesel::PgConnection;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::store::PostgresStore;
///
/// let pool = Pool::builder().max_size(6).build(ConnectionManager::<PgConnection>::new("postgres://localhost/shop"))?;
/// let store = PostgresStore::new(pool);
/// # let _ = store;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub type PostgresStore<P> = SqlStore<Pg, P>;

/// States the isolation of statements that are a transaction by themselves. Where the database's or the role's default is SERIALIZABLE
/// they would take predicate locks, over which the application's transactions fail (40001); at REPEATABLE READ they would fail themselves.
///
/// Only where another is the default: behind a pooler that nobody told of, the setting stays in a session that somebody else uses next,
/// and that one may rely on its own.
const READ_COMMITTED: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false) \
  WHERE current_setting('default_transaction_isolation') <> 'read committed'";

impl<P: ConnectionPool<Pg>> SqlStore<Pg, P> {
    /// An outbox reached through `pool`; the relay says under which names.
    pub fn new(pool: P) -> Self {
        let connections = Connections::new(pool, Some(READ_COMMITTED.into()));
        Self::from_connections(connections.with_renewal("DISCARD PLANS", POSTGRES_PLAN_AGE_MAX), None)
            .with_single_begin()
    }

    /// Lets relays of ordered topics wake each other by NOTIFY, so that a commit to a lane which another process owns is sent at
    /// once and not at that one's next poll. docs/ordering.md has what it costs and what it needs.
    ///
    /// Each relay that is to hear needs it, and each that is to be heard. `connection` is one more to the server, beside the pool's;
    /// where it cannot be had, or hears nothing, the poll does it all.
    #[must_use]
    pub fn notice_connection(mut self, connection: NoticeConnection) -> Self {
        self.extra = Some(connection);
        self
    }

    /// For a relay or an [`Admin`](crate::admin::Admin) behind pgbouncer in transaction mode, or another pooler that gives each
    /// transaction a session of its own choice; without it a relay there does not start. It needs no support for prepared statements.
    ///
    /// Each statement runs in a transaction, which costs two more round trips, and is planned anew. Nothing is set on a session for
    /// longer than a transaction. What the pool itself sends needs care, too: docs/pgbouncer.md has which pool with which settings.
    ///
    /// Better, where it can be had, is the server's own address for the relay.
    ///
    /// ```no_run
    /// # #[cfg(feature = "r2d2")] {
    /// use diesel::PgConnection;
    /// use diesel::r2d2::{ConnectionManager, Pool};
    /// use diesel_outbox::store::PostgresStore;
    ///
    /// let manager = ConnectionManager::<PgConnection>::new("postgres://pgbouncer:6432/shop");
    /// let pool = Pool::builder().max_size(6).test_on_check_out(false).build(manager)?;
    /// let store = PostgresStore::new(pool).transaction_pooling();
    /// # let _ = store;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn transaction_pooling(mut self) -> Self {
        self.executor = self.executor.map_connections(Connections::with_transaction_pooling);
        self.with_single_begin()
    }

    /// Bounds each call, by default to [`STATEMENT_TIMEOUT`](crate::limits::STATEMENT_TIMEOUT). The server gives up a little sooner, a lock
    /// after four fifths of it.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.executor = self.executor.map_connections(|connections| connections.with_deadline(timeout));
        self.with_single_begin()
    }

    /// After a change of what the text of a single statement's BEGIN depends on.
    fn with_single_begin(mut self) -> Self {
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {}; SET LOCAL idle_in_transaction_session_timeout = 2000",
            self.local_settings()
        );
        self.executor = self.executor.map_connections(|connections| connections.guarded_by(begin.into()));
        self
    }

    /// What the server is told in each transaction: the time-outs, and behind a pooler to plan anew. It keeps statements prepared by
    /// itself (pgbouncer from 1.21 on), and with them plans that were made for another size of the table.
    fn local_settings(&self) -> String {
        let connections = &self.executor.connections;
        let time_outs = time_outs(connections.deadline());
        match connections.is_transaction_pooled() {
            true => format!("{time_outs}; SET LOCAL plan_cache_mode = force_custom_plan"),
            false => time_outs,
        }
    }
}

/// What the server is told in each transaction of a store, so that it gives a statement up before the caller does: a lock first, so that
/// it is told apart from a database that is slow. For the transaction only: what a session is told, pgbouncer in transaction mode
/// passes on to sessions of the application.
fn time_outs(deadline: Duration) -> String {
    let (statement, lock) =
        (deadline * SERVER_STATEMENT_TIMEOUT_PERCENT / 100, deadline * SERVER_LOCK_TIMEOUT_PERCENT / 100);
    // Zero is no time-out at all.
    let ms = |timeout: Duration| if is_injected(InjectedBug::StatementLeftBehind) { 0 } else { millis(timeout).max(1) };
    format!("SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}", ms(statement), ms(lock))
}
