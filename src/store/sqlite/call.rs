use std::sync::Arc;
use std::time::Duration;

use diesel::deserialize::QueryableByName;
use diesel::sqlite::Sqlite;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::store::StoreError;
use crate::store::session::{Connections, Lease, Sessions};
use crate::store::statement::Statement;

/// Takes the write lock at once. A transaction that reads first cannot wait for it any more: it would have read what is
/// over by then, and fails.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

type OpenLease<P> = Lease<Sqlite, <P as Sessions<Sqlite>>::Session>;

/// Runs calls to the end, and waits for them no longer than the deadline.
pub(super) struct Caller<P: Sessions<Sqlite>> {
    pub(super) connections: Arc<Connections<Sqlite, P>>,
    pub(super) deadline: Duration,
}

impl<P: Sessions<Sqlite>> Caller<P> {
    /// Runs a call in a task of its own. Dropped in its middle, a call of diesel-async's `SyncConnectionWrapper` waits
    /// for its statement, in a way that holds up a thread of the runtime and panics where that has only one.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        call: impl for<'l> FnOnce(&'l mut OpenLease<P>) -> BoxFuture<'l, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (mut answer, answered) = oneshot::channel();
        let connections = Arc::clone(&self.connections);
        tokio::spawn(async move {
            // What nobody waits for any more is not begun.
            let lease = tokio::select! {
                biased;
                () = answer.closed() => return,
                lease = connections.lease() => lease,
            };
            let result = match lease {
                Ok(mut lease) => {
                    let result = call(&mut lease).await;
                    if result.is_ok() {
                        lease.give_back();
                    }
                    result
                }
                Err(error) => Err(error),
            };
            // An error means that the caller gave up.
            let _ = answer.send(result);
        });
        let timed_out = |_| StoreError::TimedOut { after: self.deadline };
        let task_ended = |error| Err(StoreError::Unreachable(Box::new(error)));
        timeout(self.deadline, answered).await.map_err(timed_out)?.unwrap_or_else(task_ended)
    }

    /// Runs one statement that is its own transaction, and reads its rows.
    pub(super) async fn load<T>(&self, statement: Statement<Sqlite>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<Sqlite> + Send + 'static,
    {
        self.run(|lease| Box::pin(lease.load(statement))).await
    }

    /// Runs one statement that is its own transaction, and counts the rows it changed.
    pub(super) async fn execute(&self, statement: Statement<Sqlite>) -> Result<usize, StoreError> {
        self.run(|lease| Box::pin(lease.execute(statement))).await
    }

    /// Runs writes and one statement more in one transaction, and reads the rows of that one: SQLite's DELETE feeds no INSERT.
    pub(super) async fn write_and_load<T>(
        &self,
        writes: Vec<Statement<Sqlite>>,
        last: Statement<Sqlite>,
    ) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<Sqlite> + Send + 'static,
    {
        self.run(|lease| {
            Box::pin(async move {
                lease.begin(BEGIN.into()).await?;
                for write in writes {
                    lease.execute(write).await?;
                }
                let rows = lease.load(last).await?;
                lease.commit().await?;
                Ok(rows)
            })
        })
        .await
    }
}
