//! PostgreSQL.

mod bind;
mod check;
mod claim_rows;
mod ctid;
mod database;
mod instants;
mod notice_connection;
mod notices;
mod open_claim;
mod partitions;
mod pooler;
mod read_value;

#[cfg(any(feature = "async", feature = "libpq"))]
use std::sync::Arc;
use std::time::Duration;

use diesel::pg::Pg;

pub(crate) use self::instants::instant as pg_instant;
pub use self::notice_connection::NoticeConnection;
#[cfg(any(feature = "async", feature = "libpq"))]
use super::error::StoreError;
#[cfg(any(feature = "async", feature = "libpq"))]
use super::pool::ManagedConnections;
use super::pool::{ConnectionPool, Connections};
use super::sql::SqlStore;
use crate::clock::millis;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{POSTGRES_PLAN_AGE_MAX, SERVER_LOCK_TIMEOUT_PERCENT, SERVER_STATEMENT_TIMEOUT_PERCENT};

/// An outbox in PostgreSQL (13 or later).
///
/// [`connect`](SqlStore::connect) opens connections for the relay. For TLS, or settings of your own, give it a sync (r2d2) or async
/// (diesel-async) pool with [`new`](SqlStore::new); see [`ConnectionPool`]. It works behind pgbouncer
/// in session mode, and in transaction mode with [`transaction_pooling`](SqlStore::transaction_pooling).
///
/// ```
/// # #[cfg(feature = "async")] {
/// use diesel_outbox::store::PostgresStore;
///
/// let store = PostgresStore::connect("postgres://shop:secret@localhost/shop")?;
/// # let _ = store;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
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

/// Sets the isolation level of single statements. If the default of the database or the role is SERIALIZABLE, they would take
/// predicate locks, which make the application's transactions fail (40001). At REPEATABLE READ they would fail themselves.
///
/// Only if the default is another one: behind an undeclared pooler, the setting stays in a session that somebody else uses next and
/// who may rely on its own.
const READ_COMMITTED: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false) \
  WHERE current_setting('default_transaction_isolation') <> 'read committed'";

#[cfg(any(feature = "async", feature = "libpq"))]
impl SqlStore<Pg, ManagedConnections> {
    /// A store at this URL that opens its own connections when they are needed, as many as the relay makes calls at once. The relay's
    /// start opens the first one.
    ///
    /// With the feature `async`, which the pool features enable, the connections are those of diesel-async, without TLS. With the feature
    /// `libpq` alone they are Diesel's: libpq reads the URL, and TLS works.
    ///
    /// # Errors
    /// The URL is not one of PostgreSQL, names no database, or requires TLS from connections that have none.
    pub fn connect(url: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        let url = url.into();
        #[cfg(feature = "async")]
        ManagedConnections::refuse_tls(&url)?;
        Ok(Self::new(ManagedConnections::to_server(url, &["postgres", "postgresql"])?))
    }
}

impl<P: ConnectionPool<Pg>> SqlStore<Pg, P> {
    /// An outbox reached through `pool`. The relay sets the table names.
    pub fn new(pool: P) -> Self {
        let connections = Connections::new(pool, Some(READ_COMMITTED.into()));
        Self::from_connections(connections.with_renewal("DISCARD PLANS", POSTGRES_PLAN_AGE_MAX), None)
            .with_single_begin()
    }

    /// Lets relays of ordered topics wake each other by NOTIFY. A commit to a lane of another process is then sent at once, not at
    /// that process's next poll. docs/ordering.md says what it costs and needs.
    ///
    /// Every relay that sends or receives notices needs it. `connection` is one more to the server, in addition to the pool's. If
    /// it cannot be opened, or receives nothing, polling still finds every row.
    #[must_use]
    pub fn notice_connection(mut self, connection: NoticeConnection) -> Self {
        self.extra = Some(connection);
        self
    }

    /// For a relay or an [`Admin`](crate::admin::Admin) behind pgbouncer in transaction mode, or another pooler that chooses a
    /// session for each transaction. A relay there does not start without it. It needs no support for prepared statements.
    ///
    /// Each statement runs in a transaction, which costs two more round trips, and is planned anew. No setting outlives its
    /// transaction. The pool's own statements matter, too: docs/pgbouncer.md lists pools and their settings.
    ///
    /// If possible, give the relay the server's own address instead.
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

    /// Sets the time limit of each call, by default 5 s. The server cancels a statement a little earlier, and a wait for a lock after four
    /// fifths of the limit.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.executor = self.executor.map_connections(|connections| connections.with_deadline(timeout));
        self.with_single_begin()
    }

    /// Recomputes the BEGIN text of single statements.
    fn with_single_begin(mut self) -> Self {
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; {}; SET LOCAL idle_in_transaction_session_timeout = 2000",
            self.local_settings()
        );
        self.executor = self.executor.map_connections(|connections| connections.guarded_by(begin.into()));
        self
    }

    /// The settings of each transaction: the time-outs, and behind a pooler to plan anew. A pooler may keep prepared statements
    /// itself (pgbouncer from 1.21 on), and with them plans for another size of the table.
    fn local_settings(&self) -> String {
        let connections = &self.executor.connections;
        let time_outs = time_outs(connections.deadline());
        match connections.is_transaction_pooled() {
            true => format!("{time_outs}; SET LOCAL plan_cache_mode = force_custom_plan"),
            false => time_outs,
        }
    }
}

/// The time-outs of a store's transactions, so that the server cancels a statement before the caller stops waiting. The lock
/// time-out is shorter, to tell a lock from a slow database. They hold for the transaction only: pgbouncer in transaction mode
/// passes session settings on to the application.
fn time_outs(deadline: Duration) -> String {
    let (statement, lock) =
        (deadline * SERVER_STATEMENT_TIMEOUT_PERCENT / 100, deadline * SERVER_LOCK_TIMEOUT_PERCENT / 100);
    // Zero means no time-out.
    let ms = |timeout: Duration| if is_injected(InjectedBug::StatementLeftBehind) { 0 } else { millis(timeout).max(1) };
    format!("SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}", ms(statement), ms(lock))
}
