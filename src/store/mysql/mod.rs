//! MySQL and MariaDB.

mod bind;
mod check;
mod database;
mod open_claim;
mod read_value;
mod rows;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use diesel::mysql::Mysql;

#[cfg(feature = "async")]
use super::error::StoreError;
#[cfg(feature = "async")]
use super::pool::ManagedConnections;
use super::pool::{ConnectionPool, Connections};
use super::sql::SqlStore;
use crate::clock::millis;
use crate::limits::{SERVER_STATEMENT_TIMEOUT_PERCENT, STATEMENT_TIMEOUT};

/// An outbox in MySQL (8.0.13 or later) or MariaDB (10.6 or later).
///
/// [`connect`](SqlStore::connect) opens connections for the relay. For TLS, or settings of your own, give it a sync (r2d2) or async
/// (diesel-async) pool with [`new`](SqlStore::new); see [`ConnectionPool`]. These servers call the schema of
/// [`TableNames`](crate::TableNames) a database.
///
/// ```
/// # #[cfg(feature = "async")] {
/// use diesel_outbox::store::MysqlStore;
///
/// let store = MysqlStore::connect("mysql://shop:secret@127.0.0.1/shop")?;
/// # let _ = store;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// ```no_run
/// # #[cfg(feature = "r2d2")] {
/// use diesel::MysqlConnection;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::store::MysqlStore;
///
/// let manager = ConnectionManager::<MysqlConnection>::new("mysql://localhost/shop");
/// let store = MysqlStore::new(Pool::builder().max_size(6).build(manager)?);
/// # let _ = store;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub type MysqlStore<P> = SqlStore<Mysql, P>;

#[cfg(feature = "async")]
impl SqlStore<Mysql, ManagedConnections> {
    /// A store at this URL that opens its own connections when they are needed, as many as the relay makes calls at once. The relay's
    /// start opens the first one.
    ///
    /// The connections are those of diesel-async (feature `async`, which the pool features enable), without TLS.
    ///
    /// # Errors
    /// The URL is not one of MySQL or MariaDB, or names no database.
    pub fn connect(url: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        Ok(Self::new(ManagedConnections::to_server(url, &["mysql"])?))
    }
}

impl<P: ConnectionPool<Mysql>> SqlStore<Mysql, P> {
    /// An outbox reached through `pool`. The relay sets the table names.
    pub fn new(pool: P) -> Self {
        Self::from_connections(Connections::new(pool, Some(set_up(STATEMENT_TIMEOUT))), ())
    }

    /// Sets the time limit of each call, by default 5 s.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.executor = self
            .executor
            .map_connections(|connections| connections.with_deadline(timeout).with_set_up(set_up(timeout)));
        self
    }
}

/// What each connection needs, whatever the server's defaults. READ COMMITTED, because at REPEATABLE READ a claim locks gaps, and
/// so blocks the application's INSERTs until it commits. Lock time-outs for rows and tables shorter than the caller's deadline,
/// because an abandoned statement would go on waiting in the server. A limit for slow statements, which MySQL applies to reads
/// only. English, because errors are recognized by their text.
fn set_up(deadline: Duration) -> Arc<str> {
    let lock_wait = lock_wait(deadline);
    let statement = deadline * SERVER_STATEMENT_TIMEOUT_PERCENT / 100;
    // Zero means no time-out.
    let (secs, ms) = (statement.as_secs_f64().max(0.001), millis(statement).max(1));
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION TRANSACTION READ WRITE; \
         SET SESSION autocommit = 1, innodb_lock_wait_timeout = {lock_wait}, lock_wait_timeout = {lock_wait}, \
         /*!80000 max_execution_time = {ms}, */ /*M!100600 max_statement_time = {secs:.3}, */ lc_messages = 'en_US'"
    )
    .into()
}

/// The lock time-out of a statement, in seconds.
fn lock_wait(deadline: Duration) -> u64 {
    deadline.as_secs().saturating_sub(1).max(1)
}
