//! A connection in one transaction, sync or async. Each transaction is written once, over this.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use diesel::QueryResult;

use super::claim::Claimed;
use crate::consumer::error::HandlerError;
use crate::consumer::record::Record;
use crate::hook::Depth;
use crate::inbox::InboxKey;
use crate::outbox::transaction::CommitError;
use crate::store::sql::dialect::{Dialect, Statement};
use crate::store::sql::rows::FromRow;

/// A connection of a worker, with the user's handler.
pub(super) trait Link<DB: Dialect> {
    /// Takes a connection from the pool, unless there is one.
    async fn connect(&mut self, within: Duration) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Gives the connection back.
    fn release(&mut self);

    /// Closes the connection, which also ends its transaction.
    fn discard(&mut self);

    /// How deep in transactions and savepoints it is.
    fn depth(&mut self) -> QueryResult<Depth>;

    async fn begin(&mut self) -> QueryResult<()>;

    /// Commits, if the database keeps what the transaction did.
    async fn commit(&mut self) -> Result<(), CommitError>;

    async fn rollback(&mut self) -> QueryResult<()>;

    async fn execute(&mut self, statement: Statement<DB>) -> QueryResult<usize>;

    async fn load<T: FromRow + Send + 'static>(&mut self, statement: Statement<DB>) -> QueryResult<Vec<T>>;

    /// Runs a text without binds.
    async fn batch(&mut self, sql: &str) -> QueryResult<()>;

    /// Claims a message for this consumer.
    async fn claim(&mut self, key: InboxKey) -> QueryResult<Claimed>;

    /// Removes old entries of the inbox. Returns whether there are more.
    async fn prune(&mut self) -> QueryResult<bool>;

    /// Runs the user's handler.
    async fn handle(&mut self, record: &Record) -> Result<(), HandlerError>;

    /// Runs a future of this connection to its end, on the calling thread.
    fn block_on<T>(runtime: &Self::Runtime, future: impl Future<Output = T>) -> T;

    /// What drives its futures.
    type Runtime: Clone + Send + 'static;
}
