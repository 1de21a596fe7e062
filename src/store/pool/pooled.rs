//! Async connections from the pools that diesel-async knows.

#[cfg(feature = "postgres")]
use std::any::Any;
use std::fmt;
use std::sync::Arc;

use diesel::QueryResult;
use diesel::connection::{CacheSize, TransactionDepthChange};
use diesel::deserialize::QueryableByName;
#[cfg(feature = "postgres")]
use diesel_async::AsyncPgConnection;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};
#[cfg(feature = "postgres")]
use tokio_postgres::NoTls;

#[cfg(feature = "postgres")]
use super::Cancel;
use super::{Session, record_end};
use crate::store::sql::dialect::{Dialect, Statement};

/// What a pool hands out.
pub trait Handle: Send + 'static {
    /// The connection inside.
    type Connection: AsyncConnection + 'static;

    /// The connection.
    fn connection(&mut self) -> &mut Self::Connection;

    /// Closes the connection now, which releases its locks. The pool would close it only at its next check.
    fn discard(self);
}

/// An async connection; empty only during its drop.
pub struct Pooled<H: Handle>(Option<H>);

impl<H: Handle> Pooled<H> {
    pub(super) fn new(handle: H) -> Self {
        Self(Some(handle))
    }

    fn connection(&mut self) -> &mut H::Connection {
        let Some(handle) = &mut self.0 else { unreachable!("only drop takes the handle") };
        handle.connection()
    }
}

impl<H: Handle> Drop for Pooled<H> {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.discard();
        }
    }
}

impl<H: Handle> fmt::Debug for Pooled<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled").finish_non_exhaustive()
    }
}

impl<DB, H> Session<DB> for Pooled<H>
where
    DB: Dialect,
    H: Handle<Connection: AsyncConnection<Backend = DB>>,
{
    #[cfg(feature = "postgres")]
    fn canceller(&mut self) -> Option<Cancel> {
        let connection = self.connection() as &dyn Any;
        let token = connection.downcast_ref::<AsyncPgConnection>()?.cancel_token();
        Some(Arc::new(move || {
            let token = token.clone();
            // Without TLS, as libpq did until version 17. The server requires none, unless the URL says `sslmode=require`.
            Box::pin(async move { token.cancel_query(NoTls).await.is_ok() })
        }))
    }

    fn disable_statement_cache(&mut self) {
        self.connection().set_prepared_statement_cache_size(CacheSize::Disabled);
    }

    async fn batch(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.connection().batch_execute(&text).await
    }

    async fn begin(&mut self, text: Arc<str>) -> QueryResult<()> {
        let connection = self.connection();
        connection.batch_execute(&text).await?;
        let status = <H::Connection as AsyncConnection>::TransactionManager::transaction_manager_status_mut(connection);
        status.transaction_state()?.change_transaction_depth(TransactionDepthChange::IncreaseDepth)
    }

    async fn load<T>(&mut self, statement: Statement<DB>) -> QueryResult<Vec<T>>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        statement.load(self.connection()).await
    }

    async fn execute(&mut self, statement: Statement<DB>) -> QueryResult<usize> {
        statement.execute(self.connection()).await
    }

    async fn commit(&mut self, text: Arc<str>) -> QueryResult<()> {
        let connection = self.connection();
        connection.batch_execute(&text).await?;
        record_end(<H::Connection as AsyncConnection>::TransactionManager::transaction_manager_status_mut(connection))
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        <H::Connection as AsyncConnection>::TransactionManager::rollback_transaction(self.connection()).await
    }
}
