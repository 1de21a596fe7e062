//! Async connections from the pools that diesel-async knows.

use std::fmt;
use std::sync::Arc;

use diesel::QueryResult;
use diesel::connection::TransactionDepthChange;
use diesel::deserialize::QueryableByName;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};

use super::Session;
use crate::store::statement::{Dialect, Statement};

/// What a pool hands out.
pub trait Handle: Send + 'static {
    /// The connection inside.
    type Connection: AsyncConnection;

    /// The connection.
    fn connection(&mut self) -> &mut Self::Connection;

    /// Closes the connection now, so that what it holds locked is free: a pool that looks at it only when it is next
    /// asked for would leave it open.
    fn discard(self);
}

/// An async connection.
pub struct Pooled<H>(pub(super) H);

impl<H> fmt::Debug for Pooled<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled").finish_non_exhaustive()
    }
}

impl<DB, H> Session<DB> for Pooled<H>
where
    DB: Dialect,
    H: Handle<Connection: AsyncConnection<Backend = DB>>,
{
    async fn batch(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.0.connection().batch_execute(&text).await
    }

    async fn begin(&mut self, text: Arc<str>) -> QueryResult<()> {
        let connection = self.0.connection();
        connection.batch_execute(&text).await?;
        let status = <H::Connection as AsyncConnection>::TransactionManager::transaction_manager_status_mut(connection);
        status.transaction_state()?.change_transaction_depth(TransactionDepthChange::IncreaseDepth)
    }

    async fn load<T>(&mut self, statement: Statement<DB>) -> QueryResult<Vec<T>>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        statement.load(self.0.connection()).await
    }

    async fn execute(&mut self, statement: Statement<DB>) -> QueryResult<usize> {
        statement.execute(self.0.connection()).await
    }

    async fn commit(&mut self) -> QueryResult<()> {
        <H::Connection as AsyncConnection>::TransactionManager::commit_transaction(self.0.connection()).await
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        <H::Connection as AsyncConnection>::TransactionManager::rollback_transaction(self.0.connection()).await
    }

    fn discard(self) {
        self.0.discard();
    }
}
