//! Sync connections. A connection moves to a blocking thread for one statement and comes back, so an open transaction occupies no
//! thread.

use std::fmt;
use std::sync::Arc;

use diesel::connection::{
    CacheSize, Connection, LoadConnection, SimpleConnection as _, TransactionDepthChange, TransactionManager,
};
use diesel::deserialize::QueryableByName;
use diesel::{QueryResult, RunQueryDsl};
use tokio::task::spawn_blocking;

use super::failure::connection_lost;
use super::{Session, record_end};
use crate::store::sql::dialect::{Dialect, Statement};

/// Owns a sync connection, and closes it when dropped.
pub trait Holder: Send + 'static {
    /// The connection inside.
    type Connection: LoadConnection + 'static;

    /// The connection.
    fn connection(&mut self) -> &mut Self::Connection;
}

type ManagerOf<H> = <<H as Holder>::Connection as Connection>::TransactionManager;

/// A sync connection. It is absent while a statement runs. If that statement's future is dropped, it stays absent.
pub struct Blocking<H: Holder> {
    held: Option<H>,
}

impl<H: Holder> fmt::Debug for Blocking<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("is_away", &self.held.is_none()).finish()
    }
}

impl<H: Holder> Blocking<H> {
    pub(super) fn new(held: H) -> Self {
        Self { held: Some(held) }
    }

    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut H::Connection) -> QueryResult<T> + Send + 'static,
    ) -> QueryResult<T> {
        let mut held = self.held.take().ok_or_else(|| connection_lost("an earlier call was cancelled"))?;
        let ran = spawn_blocking(move || {
            let result = work(held.connection());
            (held, result)
        });
        let (held, result) = ran.await.map_err(|error| connection_lost(&error.to_string()))?;
        self.held = Some(held);
        result
    }
}

impl<DB, H> Session<DB> for Blocking<H>
where
    DB: Dialect,
    H: Holder<Connection: Connection<Backend = DB>>,
{
    fn disable_statement_cache(&mut self) {
        if let Some(held) = &mut self.held {
            held.connection().set_prepared_statement_cache_size(CacheSize::Disabled);
        }
    }

    async fn batch(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.run(move |connection| connection.batch_execute(&text)).await
    }

    async fn begin(&mut self, text: Arc<str>) -> QueryResult<()> {
        self.run(move |connection| {
            connection.batch_execute(&text)?;
            let status = ManagerOf::<H>::transaction_manager_status_mut(connection);
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
            record_end(ManagerOf::<H>::transaction_manager_status_mut(connection))
        })
        .await
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        self.run(ManagerOf::<H>::rollback_transaction).await
    }
}
