//! MySQL and MariaDB.

mod bind;
mod check;
mod claim;
mod columns;
mod database;
mod rows;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use diesel::mysql::Mysql;

use super::pool::{ConnectionPool, Connections};
use super::sql::SqlStore;
use crate::clock::millis;
use crate::limits::{SERVER_STATEMENT_TIMEOUT_PERCENT, STATEMENT_TIMEOUT};

/// An outbox in MySQL (8.0.13 or later) or MariaDB (10.6 or later).
///
/// Works through sync (r2d2) and async (diesel-async) pools alike, see [`ConnectionPool`]. The schema of
/// [`TableNames`](crate::TableNames) is what these servers call a database.
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

impl<P: ConnectionPool<Mysql>> SqlStore<Mysql, P> {
    /// An outbox reached through `pool`; the relay says under which names.
    pub fn new(pool: P) -> Self {
        Self::from_connections(Connections::new(pool, Some(set_up(STATEMENT_TIMEOUT))), ())
    }

    /// Bounds each call, by default to [`STATEMENT_TIMEOUT`].
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.executor = self
            .executor
            .map_connections(|connections| connections.with_deadline(timeout).with_set_up(set_up(timeout)));
        self
    }
}

/// What each connection needs, whatever the server's defaults: at REPEATABLE READ a claim locks gaps, and with them the
/// application's INSERTs, until it commits. The server gives a lock up before the caller gives the statement up, which
/// would go on waiting there: a row's, and a table's, for which an ALTER TABLE waits or which it has. It ends what is slow as well, MySQL
/// only what reads. English, because errors are told apart by their text.
fn set_up(deadline: Duration) -> Arc<str> {
    let lock_wait = lock_wait(deadline);
    let statement = deadline * SERVER_STATEMENT_TIMEOUT_PERCENT / 100;
    // Zero is no time-out at all.
    let (secs, ms) = (statement.as_secs_f64().max(0.001), millis(statement).max(1));
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION TRANSACTION READ WRITE; \
         SET SESSION autocommit = 1, innodb_lock_wait_timeout = {lock_wait}, lock_wait_timeout = {lock_wait}, \
         /*!80000 max_execution_time = {ms}, */ /*M!100600 max_statement_time = {secs:.3}, */ lc_messages = 'en_US'"
    )
    .into()
}

/// For how many seconds a statement waits for a lock.
fn lock_wait(deadline: Duration) -> u64 {
    deadline.as_secs().saturating_sub(1).max(1)
}
