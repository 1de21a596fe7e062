use std::sync::Arc;
use std::time::Duration;

use diesel::deserialize::QueryableByName;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::dialect::{Dialect, Statement};
use crate::store::StoreError;
use crate::store::pool::{ConnectionPool, Connections, PoolConnection};

/// A connection in use.
pub(crate) type PoolConnectionOf<DB, P> = PoolConnection<DB, <P as ConnectionPool<DB>>::Session>;

/// Runs calls, and waits for them until the deadline.
pub(crate) struct Executor<DB: Dialect, P: ConnectionPool<DB>> {
    pub(crate) connections: Arc<Connections<DB, P>>,
    /// For a call in its own task. Other calls use the deadline of the connections.
    pub(crate) deadline: Duration,
}

impl<DB: Dialect, P: ConnectionPool<DB>> Clone for Executor<DB, P> {
    fn clone(&self) -> Self {
        Self { connections: Arc::clone(&self.connections), deadline: self.deadline }
    }
}

impl<DB: Dialect, P: ConnectionPool<DB>> Executor<DB, P> {
    /// Replaces the connections, before the first call.
    pub(crate) fn map_connections(self, change: impl FnOnce(Connections<DB, P>) -> Connections<DB, P>) -> Self {
        let connections = Arc::into_inner(self.connections);
        let connections = connections.unwrap_or_else(|| unreachable!("no call is in flight"));
        Self { connections: Arc::new(change(connections)), deadline: self.deadline }
    }

    /// Runs a call on a connection of its own.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl for<'l> FnOnce(&'l mut PoolConnectionOf<DB, P>) -> BoxFuture<'l, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if DB::SPAWNS_CALLS {
            return self.run_spawned(call).await;
        }
        let ran = self.connections.within(async {
            let mut conn = self.connections.acquire_renewed().await?;
            let ran = call(&mut conn).await?;
            conn.release();
            Ok(ran)
        });
        ran.await
    }

    /// Runs a call in its own task. If dropped, a call of diesel-async's `SyncConnectionWrapper` waits for its statement, which
    /// blocks a thread of the runtime and panics if that has only one.
    async fn run_spawned<T: Send + 'static>(
        &self,
        call: impl for<'l> FnOnce(&'l mut PoolConnectionOf<DB, P>) -> BoxFuture<'l, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (mut sender, receiver) = oneshot::channel();
        let connections = Arc::clone(&self.connections);
        let task: BoxFuture<'static, ()> = Box::pin(async move {
            // If nobody waits any more, the call is not begun.
            let conn = tokio::select! {
                biased;
                () = sender.closed() => return,
                conn = connections.acquire_renewed() => conn,
            };
            let result = match conn {
                Ok(mut conn) => {
                    let result = call(&mut conn).await;
                    if result.is_ok() {
                        conn.release();
                    }
                    result
                }
                Err(error) => Err(error),
            };
            // An error means that the caller stopped waiting.
            let _ = sender.send(result);
        });
        // Boxed: there are calls of hundreds of types, and a task of each would be another copy of tokio's code to build.
        tokio::spawn(task);
        let timed_out = |_| StoreError::TimedOut { after: self.deadline };
        let task_ended = |error| Err(StoreError::Unreachable(Box::new(error)));
        timeout(self.deadline, receiver).await.map_err(timed_out)?.unwrap_or_else(task_ended)
    }

    /// Runs one statement as its own transaction, and reads its rows.
    pub(crate) async fn load<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        match DB::SPAWNS_CALLS {
            true => self.run_spawned(|conn| Box::pin(conn.load(statement))).await,
            false => self.connections.load(statement).await,
        }
    }

    /// Runs a statement that an idle store repeats.
    pub(crate) async fn poll<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        match DB::SPAWNS_CALLS {
            true => self.load(statement).await,
            false => self.connections.poll(statement).await,
        }
    }

    /// Runs one statement as its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(&self, statement: Statement<DB>) -> Result<usize, StoreError> {
        match DB::SPAWNS_CALLS {
            true => self.run_spawned(|conn| Box::pin(conn.execute(statement))).await,
            false => self.connections.execute(statement).await,
        }
    }
}
