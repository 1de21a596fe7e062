//! A connection in one transaction, sync or async. Each transaction is written once, over this.

use std::collections::HashSet;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use diesel::QueryResult;
use uuid::Uuid;

use super::claim::Claimed;
#[cfg(all(feature = "postgres", any(feature = "deadpool", feature = "bb8", feature = "mobc")))]
use super::pipeline::Pipeline;
use crate::consumer::error::HandlerError;
use crate::consumer::record::Record;
use crate::hook::Depth;
use crate::inbox::{Inbox, InboxKey};
use crate::limits::{CONSUMER_CONNECTION_TIMEOUT, CONSUMER_PINGS_MAX};
use crate::outbox::transaction::CommitError;
use crate::store::sql::dialect::{Dialect, Statement};
use crate::store::sql::rows::FromRow;
use crate::store::{ErrorClass, StoreError, classify};

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

    /// What sends BEGIN and the statements behind it together, if the connection can.
    #[cfg(all(feature = "postgres", any(feature = "deadpool", feature = "bb8", feature = "mobc")))]
    fn pipeline(&mut self) -> Option<Pipeline<'_>> {
        None
    }

    /// Whether a deadlock has ended the transaction, and its error was ignored. Nothing is asked: some databases tell nothing.
    fn is_transaction_lost(&mut self) -> bool;

    /// Commits, if the database keeps what the transaction did.
    async fn commit(&mut self) -> Result<(), CommitError>;

    async fn rollback(&mut self) -> QueryResult<()>;

    async fn execute(&mut self, statement: Statement<DB>) -> QueryResult<usize>;

    async fn load<T: FromRow + Send + 'static>(&mut self, statement: Statement<DB>) -> QueryResult<Vec<T>>;

    /// Runs a text without binds.
    async fn batch(&mut self, sql: &str) -> QueryResult<()>;

    /// Whether the database answers on some connection. A pool may still have some that broke.
    async fn ping(&mut self, within: Duration) -> Result<(), StoreError> {
        let mut answered = Ok(());
        for _ in 0..CONSUMER_PINGS_MAX {
            self.connect(within).await.map_err(StoreError::Unreachable)?;
            answered = self.batch("SELECT 1").await.map_err(store_error);
            if answered.is_ok() {
                break;
            }
            self.discard();
        }
        answered
    }

    /// Claims a message for this consumer.
    async fn claim(&mut self, key: InboxKey) -> QueryResult<Claimed>;

    /// Claims several messages for this consumer. Returns whether all are new; if not, some may have been claimed.
    async fn claim_all(&mut self, keys: &[InboxKey]) -> QueryResult<bool>;

    /// The consumer's inbox, if it has one.
    fn inbox(&self) -> Option<&Inbox>;

    /// Which of these messages have entries that are committed.
    async fn find(&mut self, keys: &[InboxKey]) -> QueryResult<HashSet<Uuid>>;

    /// Removes old entries of the inbox. Returns whether there are more.
    async fn prune(&mut self) -> QueryResult<bool>;

    /// Runs the user's handler.
    async fn handle(&mut self, record: &Record) -> Result<(), HandlerError>;

    /// Runs a future of this connection to its end, on the calling thread.
    fn block_on<T>(runtime: &Self::Runtime, future: impl Future<Output = T>) -> T;

    /// What drives its futures.
    type Runtime: Clone + Send + 'static;
}

/// The error of a statement of the consumer's own.
pub(super) fn store_error(error: diesel::result::Error) -> StoreError {
    match classify(error, CONSUMER_CONNECTION_TIMEOUT) {
        ErrorClass::Known(error) => error,
        ErrorClass::Unclear(error) => StoreError::Statement(error.into()),
    }
}
