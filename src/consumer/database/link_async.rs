//! Connections of diesel-async, from deadpool, bb8 or mobc.
//!
//! A worker is a thread here, too, and waits for its futures on it. **Rejected:** tasks. Their futures must be `Send`, which an async
//! closure cannot promise (rust-lang/rust#100013), and a handler that computes for long would delay every other one.

use std::collections::HashSet;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use diesel::QueryResult;
use diesel_async::{AsyncConnection, RunQueryDsl as _, SimpleAsyncConnection as _, TransactionManager as _};
use futures_util::future::LocalBoxFuture;
use tokio::time::timeout;
use uuid::Uuid;

use super::claim::{Claimed, ConsumerBackend, all_new, claim_async};
use super::link::Link;
#[cfg(feature = "postgres")]
use super::pipeline::Pipeline;
use super::transaction::{Transactions, sql};
use crate::consumer::error::HandlerError;
use crate::consumer::options::Options;
use crate::consumer::record::Record;
use crate::consumer::worker::MakeWorker;
use crate::enqueue::AsyncOutboxBackend;
use crate::hook::{AsyncConn, Depth};
use crate::inbox::{Inbox, InboxKey};
use crate::outbox::transaction::checked_commit::has_lost_by_deadlock;
use crate::outbox::transaction::{CommitError, begin_checked_async, commit_checked_async};
use crate::store::pool::{AsyncPool, Handle};
use crate::store::sql::dialect::Statement;
use crate::store::sql::rows::{FromRow, Read};

pub(crate) type ConnectionOf<P> = <<P as AsyncPool>::Handle as Handle>::Connection;
pub(crate) type BackendOf<P> = <ConnectionOf<P> as diesel_async::AsyncConnectionCore>::Backend;
type ManagerOf<P> = <ConnectionOf<P> as AsyncConnection>::TransactionManager;

/// The user's handler. Its type is erased, so that its transactions are built once for a type of pool, not for each handler.
type Handler<C> =
    Arc<dyn for<'h> Fn(&'h mut C, &'h Record) -> LocalBoxFuture<'h, Result<(), HandlerError>> + Send + Sync>;

struct AsyncLink<P: AsyncPool> {
    runtime: tokio::runtime::Handle,
    pool: P,
    handle: Option<P::Handle>,
    inbox: Option<Inbox>,
    handler: Handler<ConnectionOf<P>>,
}

/// Workers that use a pool of async connections.
pub(crate) fn async_workers<P, F, E>(
    pool: P,
    handler: F,
    inbox: Option<Inbox>,
    options: &Options,
    runtime: tokio::runtime::Handle,
) -> MakeWorker
where
    P: AsyncPool,
    BackendOf<P>: ConsumerBackend + AsyncOutboxBackend<ConnectionOf<P>>,
    F: AsyncFn(&mut ConnectionOf<P>, &Record) -> Result<(), E> + Send + Sync + 'static,
    E: Into<HandlerError> + 'static,
{
    let handler = Arc::new(handler);
    let handler: Handler<ConnectionOf<P>> = Arc::new(move |conn, record| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler(conn, record).await.map_err(Into::into) })
    });
    let (options, sql) = (Arc::new(options.clone()), sql::<BackendOf<P>>(options));
    Arc::new(move || {
        let (pool, inbox) = (pool.clone(), inbox.clone());
        let link = AsyncLink { runtime: runtime.clone(), pool, handle: None, inbox, handler: Arc::clone(&handler) };
        let (sql, options) = (Arc::clone(&sql), Arc::clone(&options));
        Box::new(Transactions::<BackendOf<P>, _>::new(link, sql, options, runtime.clone()))
    })
}

impl<P: AsyncPool> AsyncLink<P> {
    fn connection(&mut self) -> QueryResult<&mut ConnectionOf<P>> {
        let handle = self.handle.as_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        Ok(handle.connection())
    }

    fn give_back(&mut self) {
        // bb8 and mobc start a task when a connection comes back.
        let _entered = self.runtime.enter();
        self.handle = None;
    }
}

impl<P: AsyncPool> Drop for AsyncLink<P> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<P> Link<BackendOf<P>> for AsyncLink<P>
where
    P: AsyncPool,
    BackendOf<P>: ConsumerBackend + AsyncOutboxBackend<ConnectionOf<P>>,
{
    type Runtime = tokio::runtime::Handle;

    async fn connect(&mut self, within: Duration) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.handle.is_none() {
            self.handle = Some(timeout(within, self.pool.take()).await??);
        }
        Ok(())
    }

    fn release(&mut self) {
        self.give_back();
    }

    fn discard(&mut self) {
        let _entered = self.runtime.enter();
        if let Some(handle) = self.handle.take() {
            handle.discard();
        }
    }

    fn depth(&mut self) -> QueryResult<Depth> {
        Depth::of(&mut AsyncConn(self.connection()?))
    }

    async fn begin(&mut self) -> QueryResult<()> {
        begin_checked_async(self.connection()?).await
    }

    #[cfg(feature = "postgres")]
    fn pipeline(&mut self) -> Option<Pipeline<'_>> {
        let Self { handle, inbox, .. } = self;
        Pipeline::of(handle.as_mut()?.connection(), inbox.as_ref())
    }

    fn is_transaction_lost(&mut self) -> bool {
        self.connection().is_ok_and(|conn| has_lost_by_deadlock::<BackendOf<P>>(&mut AsyncConn(conn)))
    }

    async fn commit(&mut self) -> Result<(), CommitError> {
        commit_checked_async(self.connection()?).await
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        ManagerOf::<P>::rollback_transaction(self.connection()?).await
    }

    async fn execute(&mut self, statement: Statement<BackendOf<P>>) -> QueryResult<usize> {
        statement.execute(self.connection()?).await
    }

    async fn load<T: FromRow + Send + 'static>(&mut self, statement: Statement<BackendOf<P>>) -> QueryResult<Vec<T>> {
        let rows: Vec<Read<T>> = statement.load(self.connection()?).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn batch(&mut self, sql: &str) -> QueryResult<()> {
        self.connection()?.batch_execute(sql).await
    }

    async fn claim(&mut self, key: InboxKey) -> QueryResult<Claimed> {
        let Self { handle, inbox, .. } = self;
        let handle = handle.as_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        claim_async(inbox.as_ref(), handle.connection(), key).await
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_ref()
    }

    async fn claim_all(&mut self, keys: &[InboxKey]) -> QueryResult<bool> {
        let Self { handle, inbox, .. } = self;
        let handle = handle.as_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        let Some(inbox) = inbox else { return Ok(true) };
        all_new(inbox.claim_many_async(handle.connection(), keys).await)
    }

    async fn find(&mut self, keys: &[InboxKey]) -> QueryResult<HashSet<Uuid>> {
        let Self { handle, inbox, .. } = self;
        let handle = handle.as_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        let Some(inbox) = inbox else { return Ok(HashSet::new()) };
        inbox.find_async(handle.connection(), keys).await
    }

    async fn prune(&mut self) -> QueryResult<bool> {
        let Self { handle, inbox, .. } = self;
        let handle = handle.as_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        let Some(inbox) = inbox else { return Ok(false) };
        Ok(inbox.prune_async(handle.connection()).await?.has_more)
    }

    async fn handle(&mut self, record: &Record) -> Result<(), HandlerError> {
        let Self { handle, handler, .. } = self;
        let handle = handle.as_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        handler(handle.connection(), record).await
    }

    fn block_on<T>(runtime: &tokio::runtime::Handle, future: impl Future<Output = T>) -> T {
        runtime.block_on(future)
    }
}
