//! Sync connections from r2d2. A connection moves to a blocking thread for one statement and comes back, so an open transaction
//! occupies no thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel::connection::{CacheSize, Connection, LoadConnection, TransactionDepthChange, TransactionManager};
use diesel::deserialize::QueryableByName;
use diesel::r2d2::{ConnectionManager, Pool, PooledConnection, R2D2Connection};
use diesel::{QueryResult, RunQueryDsl};
use tokio::task::spawn_blocking;

use super::failure::connection_lost;
use super::sealed::Sealed;
use super::{ConnectionPool, OpenError, Session, record_end};
use crate::store::sql::dialect::{Dialect, Statement};

impl<C: R2D2Connection + Send + 'static> Sealed for Pool<ConnectionManager<C>> {}

impl<DB, C> ConnectionPool<DB> for Pool<ConnectionManager<C>>
where
    DB: Dialect,
    C: R2D2Connection + Connection<Backend = DB> + LoadConnection + Send + 'static,
{
    type Session = Blocking<C>;

    async fn open(&self, within: Duration) -> Result<Self::Session, OpenError> {
        let pool = self.clone();
        let connection = spawn_blocking(move || pool.get_timeout(within)).await??;
        Ok(Blocking { connection: Some(DetachedConnection(connection)) })
    }
}

/// A connection from r2d2. Absent while a statement runs, and for good once that statement's future was dropped.
pub struct Blocking<C: R2D2Connection + Send + 'static> {
    connection: Option<DetachedConnection<C>>,
}

/// A connection that never returns to the pool, wherever it is dropped, even as the result of an abandoned call.
struct DetachedConnection<C: R2D2Connection + Send + 'static>(PooledConnection<ConnectionManager<C>>);

impl<C: R2D2Connection + Send + 'static> Drop for DetachedConnection<C> {
    fn drop(&mut self) {
        // r2d2 cannot remove a connection, but closes one that is marked as broken.
        C::TransactionManager::transaction_manager_status_mut(&mut *self.0).set_in_error();
    }
}

impl<C: R2D2Connection + Send + 'static> fmt::Debug for Blocking<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("is_away", &self.connection.is_none()).finish()
    }
}

impl<C: R2D2Connection + Connection + Send + 'static> Blocking<C> {
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut C) -> QueryResult<T> + Send + 'static,
    ) -> QueryResult<T> {
        let mut connection = self.connection.take().ok_or_else(|| connection_lost("an earlier call was cancelled"))?;
        let ran = spawn_blocking(move || {
            let result = work(&mut connection.0);
            (connection, result)
        });
        let (connection, result) = ran.await.map_err(|error| connection_lost(&error.to_string()))?;
        self.connection = Some(connection);
        result
    }
}

impl<DB, C> Session<DB> for Blocking<C>
where
    DB: Dialect,
    C: R2D2Connection + Connection<Backend = DB> + LoadConnection + Send + 'static,
{
    fn disable_statement_cache(&mut self) {
        if let Some(detached) = &mut self.connection {
            detached.0.set_prepared_statement_cache_size(CacheSize::Disabled);
        }
    }

    async fn batch(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.run(move |connection| connection.batch_execute(&text)).await
    }

    async fn begin(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.run(move |connection| {
            connection.batch_execute(&text)?;
            let status = C::TransactionManager::transaction_manager_status_mut(connection);
            status.transaction_state()?.change_transaction_depth(TransactionDepthChange::IncreaseDepth)
        })
        .await
    }

    async fn load<T>(&mut self, statement: Statement<DB>) -> QueryResult<Vec<T>>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.run(move |connection| statement.load(connection)).await
    }

    async fn execute(&mut self, statement: Statement<DB>) -> QueryResult<usize> {
        self.run(move |connection| statement.execute(connection)).await
    }

    async fn commit(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.run(move |connection| {
            connection.batch_execute(&text)?;
            record_end(C::TransactionManager::transaction_manager_status_mut(connection))
        })
        .await
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        self.run(C::TransactionManager::rollback_transaction).await
    }
}
