#[cfg(feature = "postgres")]
use std::any::Any;
use std::future::Future;

use diesel::result::{Error, QueryResult};
#[cfg(feature = "postgres")]
use diesel_async::AsyncPgConnection;
use diesel_async::{AsyncConnection, TransactionManager};
use futures_util::future::BoxFuture;

use super::begin::after_rollback;
use super::begin_async::begin_async;
use super::buffered::BufferedMessages;
use super::connection_async::AsyncTransaction;
use super::inner_connection::TransactionConnection;
use crate::enqueue::encode::Encoded;
use crate::enqueue::{AsyncOutboxBackend, Dialect};
use crate::hook::{AsyncConn, Depth};
use crate::outbox::Outbox;
use crate::outbox::commit_async::commit_async;
use crate::outbox::pending_commit::PendingCommit;
use crate::outbox::write::{WriteContext, error_after_rollback, map_refusal};

/// An async closure whose future can be required to be `Send`; diesel-async's own trait for that is private.
pub trait AsyncFunc<T, R>: AsyncFnOnce(T) -> R + FnOnce(T) -> <Self as AsyncFunc<T, R>>::Fut {
    /// The closure's future.
    type Fut: Future<Output = R>;
}

impl<F, T, Fut, R> AsyncFunc<T, R> for F
where
    F: AsyncFnOnce(T) -> R + FnOnce(T) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

/// Boxed, because rustc cannot yet prove that a future which holds the closure's own is `Send` (rust-lang/rust#100013).
fn call<'r, C, T, E, F>(f: F, tx: &'r mut AsyncTransaction<'r, C>) -> BoxFuture<'r, Result<T, E>>
where
    C: 'static,
    F: AsyncFunc<&'r mut AsyncTransaction<'r, C>, Result<T, E>, Fut: Send> + 'r,
    T: 'r,
    E: 'r,
{
    Box::pin(f(tx))
}

impl Outbox {
    /// Like [`transaction`](Self::transaction), over a diesel-async connection. On PostgreSQL the messages and the
    /// COMMIT are sent together, which saves a round trip.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] {
    /// use diesel_async::{AsyncPgConnection, RunQueryDsl};
    /// use diesel_outbox::{Message, Outbox};
    ///
    /// async fn place(conn: &mut AsyncPgConnection, outbox: &Outbox) -> diesel::QueryResult<()> {
    ///     outbox
    ///         .transaction_async(conn, async |tx| {
    ///             diesel::sql_query("INSERT INTO orders VALUES (42)").execute(tx).await?;
    ///             tx.enqueue(&Message::to("orders").key("42").payload_bytes("placed"))?;
    ///             Ok(())
    ///         })
    ///         .await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`transaction`](Self::transaction).
    ///
    /// # Cancel safety
    /// A dropped future leaves the transaction open, or in the middle of COMMIT; such a connection is broken and pools
    /// discard it. If the COMMIT happened, the sweeper sends the messages.
    pub fn transaction_async<'a, 'c, D, C, T, E, F>(
        &'c self,
        conn: &'c mut D,
        f: F,
    ) -> impl Future<Output = Result<T, E>> + Send + 'c
    where
        D: TransactionConnection<Inner = C>,
        C: AsyncConnection + 'static,
        C::Backend: AsyncOutboxBackend<C>,
        for<'r> F: AsyncFnOnce(&'r mut AsyncTransaction<'r, C>) -> Result<T, E>
            + AsyncFunc<&'r mut AsyncTransaction<'r, C>, Result<T, E>, Fut: Send>
            + Send
            + 'a,
        T: Send + 'a,
        E: From<Error> + Send + 'a,
        'a: 'c,
    {
        let conn = conn.inner();
        async move {
            let f = f;
            let begun = begin_async(conn).await?;
            let mut buffered = BufferedMessages::new(self.clone());
            let ended = call(f, &mut AsyncTransaction::new(conn, &mut buffered)).await;
            match ended {
                Ok(value) => {
                    self.write_and_commit_async(conn, buffered.into_rows(), begun).await?;
                    Ok(value)
                }
                Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
            }
        }
    }

    async fn write_and_commit_async<C>(&self, conn: &mut C, rows: Vec<Encoded>, begun: Depth) -> QueryResult<()>
    where
        C: AsyncConnection + 'static,
        C::Backend: AsyncOutboxBackend<C>,
    {
        if rows.is_empty() {
            return commit_async(conn).await;
        }
        let written = match self.check_final_write::<C::Backend>(&mut AsyncConn(conn), &rows, begun) {
            Ok(context) => {
                #[cfg(feature = "postgres")]
                if let Some(conn) = (&mut *conn as &mut dyn Any).downcast_mut::<AsyncPgConnection>()
                    && !self.inner.transaction_pooling
                    && Self::fits_pipeline(&rows, context)
                {
                    // If the database refused the check, the INSERT fails and the whole transaction is rolled back.
                    drop(self.check_unsent_async(conn, context).await);
                    return self.write_with_commit(conn, rows, context).await;
                }
                self.write_last_async(conn, rows, context).await
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(committing) => {
                let committed = commit_async(conn).await;
                committing.end(&committed);
                committed
            }
            Err(error) => Err(after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
        }
    }

    async fn write_last_async<C>(
        &self,
        conn: &mut C,
        rows: Vec<Encoded>,
        context: WriteContext,
    ) -> QueryResult<PendingCommit>
    where
        C: AsyncConnection + 'static,
        C::Backend: AsyncOutboxBackend<C>,
    {
        if let Some(clear_flag) = C::Backend::CLEAR_FLAG {
            conn.batch_execute(clear_flag).await.map_err(|error| map_refusal::<C::Backend>(error, &rows))?;
        }
        let inserted = self.insert_all_async(conn, &rows, context).await?;
        self.check_unsent_async(conn, context).await?;
        let committing = self.pending_commit::<C::Backend>(rows, &inserted, context);
        Ok(committing.or_defer_to_hook(&mut AsyncConn(conn)))
    }
}
