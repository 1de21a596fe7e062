//! SQLite.

mod bind;
mod check;
mod database;
mod open_claim;
mod read_value;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use diesel::sqlite::Sqlite;

use super::error::StoreError;
use super::pool::{ConnectionPool, Connections, ManagedConnections};
use super::sql::SqlStore;

/// Sets up an application's connection to a database that a relay also uses. Run it on each one, before anything else:
///
/// - `busy_timeout`: writes wait for each other instead of failing with "database is locked". First, because the next may
///   have to wait as well;
/// - `journal_mode = WAL`: the relay's reads and the application's writes do not wait for each other. It stays with the
///   file. On a new file run it on one connection before the others: if several change the mode at once, SQLite fails with "database
///   is locked", and does not wait;
/// - `synchronous = FULL`: with less, a loss of power can take back a commit whose message was sent. SQLite's default, but
///   not that of every build of it.
///
/// ```
/// # #[cfg(feature = "r2d2")] {
/// use diesel::connection::SimpleConnection;
/// use diesel::r2d2::{ConnectionManager, CustomizeConnection, Error, Pool};
/// use diesel::sqlite::SqliteConnection;
/// use diesel_outbox::store::SQLITE_PRAGMAS;
///
/// #[derive(Debug)]
/// struct SetUp;
///
/// impl CustomizeConnection<SqliteConnection, Error> for SetUp {
///     fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), Error> {
///         conn.batch_execute(SQLITE_PRAGMAS).map_err(Error::QueryError)
///     }
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("shop.db");
/// # let file = file.to_string_lossy();
/// let manager = ConnectionManager::new(&*file);
/// let pool = Pool::builder().connection_customizer(Box::new(SetUp)).build(manager)?;
/// # let _ = pool;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub const SQLITE_PRAGMAS: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL";

/// The setting of each connection of the store: wait for the write lock, but shorter than a call may take.
const SET_UP: &str = "PRAGMA busy_timeout = 2000";

/// An outbox in SQLite (3.37 or later, with its JSON functions).
///
/// [`connect`](SqlStore::connect) opens connections for the relay and needs no pool. [`new`](SqlStore::new) takes a sync (r2d2) or async
/// (diesel-async's `SyncConnectionWrapper`) pool of at least two connections; see [`ConnectionPool`]. The database must be
/// a file: each connection to `:memory:` has its own database. The schema of [`TableNames`](crate::TableNames) is an attached database,
/// which each connection of the pool must attach.
///
/// # The one write lock
/// SQLite lets one connection write at a time. So a claim leases its rows in a short transaction and does not keep them locked while
/// they are sent. Set up the application's connections with [`SQLITE_PRAGMAS`] or similar; a relay warns at its start of settings that can
/// lose commits. Begin writing transactions with `BEGIN IMMEDIATE` (Diesel's `immediate_transaction`). Otherwise a transaction that reads
/// first fails at once if the relay has written meanwhile, whatever its `busy_timeout`.
///
/// ```
/// use diesel_outbox::store::SqliteStore;
///
/// let store = SqliteStore::connect("shop.db")?;
/// # let _ = store;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub type SqliteStore<P> = SqlStore<Sqlite, P>;

/// Takes the write lock at once. A transaction that reads first can no longer wait for it: what it has read would be outdated, so
/// it fails.
const BEGIN: &str = "BEGIN IMMEDIATE";

impl SqlStore<Sqlite, ManagedConnections> {
    /// A store in this file that opens its own connections when they are needed, at most two of Diesel's. The relay's start opens the
    /// first one.
    ///
    /// # Errors
    /// The path names no file that several connections can share, as `:memory:` does.
    pub fn connect(path: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        Ok(Self::new(ManagedConnections::to_file(path)?))
    }
}

impl<P: ConnectionPool<Sqlite>> SqlStore<Sqlite, P> {
    /// An outbox reached through `pool`. The relay sets the table names.
    pub fn new(pool: P) -> Self {
        Self::from_connections(Connections::new(pool, Some(SET_UP.into())), ())
    }

    /// Sets the time limit of each call, by default 5 s. A statement whose caller stopped waiting ends by itself.
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.executor.deadline = timeout;
        self
    }
}
