//! Connections, sync or async, behind one interface, so that each database's store is written once.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code, unused_imports))]

#[cfg(any(feature = "r2d2", feature = "sqlite", all(feature = "libpq", not(feature = "async"))))]
mod blocking;
mod call;
mod connection;
mod connections;
mod failure;
mod managed;
mod places;
#[cfg(any(
    feature = "deadpool",
    feature = "bb8",
    feature = "mobc",
    all(feature = "async", any(feature = "postgres", feature = "mysql"))
))]
mod pooled;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
mod pools;
#[cfg(feature = "r2d2")]
mod r2d2;
mod statement_timeouts;
#[cfg(all(test, feature = "postgres"))]
mod tests;

pub(crate) use connection::PoolConnection;
pub(crate) use connections::Connections;
pub(crate) use failure::{ErrorClass, classify, ignore_unique_violation, within};
pub use managed::ManagedConnections;
#[cfg(all(
    any(feature = "kafka", feature = "rocketmq"),
    any(feature = "deadpool", feature = "bb8", feature = "mobc")
))]
pub(crate) use pooled::Handle;
#[cfg(all(
    any(feature = "kafka", feature = "rocketmq"),
    any(feature = "deadpool", feature = "bb8", feature = "mobc")
))]
pub use pools::AsyncPool;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use diesel::QueryResult;
#[cfg(any(feature = "r2d2", feature = "async", feature = "libpq", feature = "sqlite"))]
use diesel::connection::{TransactionDepthChange, TransactionManagerStatus};
use diesel::deserialize::QueryableByName;
use futures_util::future::BoxFuture;

use super::sql::dialect::{Dialect, Statement};

/// A pool from which a store takes its connections.
///
/// Implemented for `r2d2::Pool<ConnectionManager<_>>` of Diesel's own connections (feature `r2d2`) and for the
/// diesel-async pools of deadpool, bb8 and mobc (features of their names), and for [`ManagedConnections`].
///
/// The store caches the connections it takes, so a call needs no checkout, no ping and no newly prepared statements. A
/// relay with one transport and the default limits uses up to six, and up to three more for each ordered topic. Give it a
/// pool of its own. When the store is dropped, it closes its connections and does not return them.
///
/// A relay refuses to start with fewer than four connections for its first transport and two for each further one; on
/// SQLite it needs two. It always leaves one connection of the pool to others. An application on the same pool goes on,
/// but slowly, and the log warns about it.
///
/// A connection whose call was abandoned keeps its place in the pool until the server has answered. So the server never has more
/// processes for a store than its pool has places.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pool that a store can take `{DB}` connections from",
    note = "use r2d2's Pool<ConnectionManager<_>> with diesel's connection (feature `r2d2`), or the Pool of diesel-async's \
            deadpool, bb8 or mobc module with its connection (features `deadpool`, `bb8`, `mobc`)"
)]
pub trait ConnectionPool<DB: Dialect>: sealed::Sealed + Send + Sync + 'static {
    #[doc(hidden)]
    type Session: Session<DB>;

    /// The most connections that the pool may have; `None` if it has no bound or does not report one.
    #[doc(hidden)]
    fn size_max(&self) -> Option<usize> {
        None
    }

    /// How many of its connections are in use, if it reports that.
    #[doc(hidden)]
    fn in_use(&self) -> Option<usize> {
        None
    }

    /// Whether only this store uses it.
    #[doc(hidden)]
    fn is_managed(&self) -> bool {
        false
    }

    #[doc(hidden)]
    fn open(&self, within: Duration) -> impl Future<Output = Result<Self::Session, OpenError>> + Send;
}

/// Sends a cancel request; returns whether the server accepted it.
pub(crate) type Cancel = Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

pub(crate) type OpenError = Box<dyn Error + Send + Sync>;

/// One connection taken from a pool. Dropping it closes the connection; it never goes back to its pool.
///
/// # Cancel safety
/// None: a call runs to its end ([`call`]), because the server does not stop when a future is dropped.
pub trait Session<DB: Dialect>: Send + 'static {
    /// Asks the server, over another connection, to cancel this one's statement; `None` if the driver cannot.
    fn canceller(&mut self) -> Option<Cancel> {
        None
    }

    /// Stops preparing statements: the next one may reach another session of the server.
    fn disable_statement_cache(&mut self);

    /// Runs text without binds or results, which may hold several statements.
    fn batch(&mut self, text: Arc<str>) -> impl Future<Output = QueryResult<()>> + Send;

    /// Opens a transaction with the given text, so that its settings travel with BEGIN.
    fn begin(&mut self, text: Arc<str>) -> impl Future<Output = QueryResult<()>> + Send;

    /// Runs a statement and reads its rows.
    fn load<T>(&mut self, statement: Statement<DB>) -> impl Future<Output = QueryResult<Vec<T>>> + Send
    where
        T: QueryableByName<DB> + Send + 'static;

    /// Runs a statement and counts the rows it changed.
    fn execute(&mut self, statement: Statement<DB>) -> impl Future<Output = QueryResult<usize>> + Send;

    /// Ends the transaction that `begin` opened, with the given commit text.
    fn commit(&mut self, text: Arc<str>) -> impl Future<Output = QueryResult<()>> + Send;

    /// Rolls it back.
    fn rollback(&mut self) -> impl Future<Output = QueryResult<()>> + Send;
}

/// Records the end of a transaction.
#[cfg(any(feature = "r2d2", feature = "async", feature = "libpq", feature = "sqlite"))]
fn record_end(status: &mut TransactionManagerStatus) -> QueryResult<()> {
    match status.transaction_state()?.change_transaction_depth(TransactionDepthChange::DecreaseDepth) {
        // libpq has already reported it to diesel's connection.
        Err(diesel::result::Error::NotInTransaction) => Ok(()),
        booked => booked,
    }
}

mod sealed {
    pub trait Sealed {}
}
