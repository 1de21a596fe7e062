//! Connections of Diesel itself, from r2d2. Nothing is awaited: each future is ready at once.

use std::collections::HashSet;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use diesel::QueryResult;
use diesel::RunQueryDsl as _;
use diesel::connection::{Connection, LoadConnection, TransactionManager};
use diesel::r2d2::{ConnectionManager, Pool, PooledConnection, R2D2Connection};
use futures_util::FutureExt as _;
use uuid::Uuid;

use super::claim::{Claimed, ConsumerBackend, all_new, claim};
use super::link::Link;
use super::transaction::{Transactions, sql};
use crate::consumer::error::HandlerError;
use crate::consumer::options::Options;
use crate::consumer::record::Record;
use crate::consumer::worker::MakeWorker;
use crate::enqueue::OutboxBackend;
use crate::hook::{Depth, SyncConn};
use crate::inbox::{Inbox, InboxKey};
use crate::outbox::transaction::checked_commit::has_lost_by_deadlock;
use crate::outbox::transaction::{CommitError, begin_checked, commit_checked};
use crate::store::sql::dialect::Statement;
use crate::store::sql::rows::{FromRow, Read};

/// The user's handler. Its type is erased, so that its transactions are built once for a type of connection, not for each handler.
type Handler<C> = Arc<dyn Fn(&mut C, &Record) -> Result<(), HandlerError> + Send + Sync>;

struct SyncLink<C: R2D2Connection + Send + 'static> {
    pool: Pool<ConnectionManager<C>>,
    connection: Option<PooledConnection<ConnectionManager<C>>>,
    inbox: Option<Inbox>,
    handler: Handler<C>,
}

/// Workers that use a pool of sync connections.
pub(crate) fn sync_workers<C, F, E>(
    pool: Pool<ConnectionManager<C>>,
    handler: F,
    inbox: Option<Inbox>,
    options: &Options,
) -> MakeWorker
where
    C: R2D2Connection + LoadConnection + Send + 'static,
    C::Backend: ConsumerBackend + OutboxBackend<C>,
    F: Fn(&mut C, &Record) -> Result<(), E> + Send + Sync + 'static,
    E: Into<HandlerError> + 'static,
{
    let handler: Handler<C> = Arc::new(move |conn, record| handler(conn, record).map_err(Into::into));
    let (options, sql) = (Arc::new(options.clone()), sql::<C::Backend>(options));
    Arc::new(move || {
        let (pool, inbox) = (pool.clone(), inbox.clone());
        let link = SyncLink { pool, connection: None, inbox, handler: Arc::clone(&handler) };
        Box::new(Transactions::<C::Backend, _>::new(link, Arc::clone(&sql), Arc::clone(&options), ()))
    })
}

impl<C: R2D2Connection + Connection + Send + 'static> SyncLink<C> {
    fn connection(&mut self) -> QueryResult<&mut C> {
        self.connection.as_deref_mut().ok_or(diesel::result::Error::BrokenTransactionManager)
    }
}

impl<C> Link<C::Backend> for SyncLink<C>
where
    C: R2D2Connection + LoadConnection + Send + 'static,
    C::Backend: ConsumerBackend + OutboxBackend<C>,
{
    type Runtime = ();

    async fn connect(&mut self, within: Duration) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.connection.is_none() {
            self.connection = Some(self.pool.get_timeout(within)?);
        }
        Ok(())
    }

    fn release(&mut self) {
        self.connection = None;
    }

    fn discard(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            // r2d2 closes one that is marked as broken.
            C::TransactionManager::transaction_manager_status_mut(&mut *connection).set_in_error();
        }
    }

    fn depth(&mut self) -> QueryResult<Depth> {
        Depth::of(&mut SyncConn(self.connection()?))
    }

    async fn begin(&mut self) -> QueryResult<()> {
        begin_checked(self.connection()?)
    }

    fn is_transaction_lost(&mut self) -> bool {
        self.connection().is_ok_and(|conn| has_lost_by_deadlock::<C::Backend>(&mut SyncConn(conn)))
    }

    async fn commit(&mut self) -> Result<(), CommitError> {
        commit_checked(self.connection()?)
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        C::TransactionManager::rollback_transaction(self.connection()?)
    }

    async fn execute(&mut self, statement: Statement<C::Backend>) -> QueryResult<usize> {
        statement.execute(self.connection()?)
    }

    async fn load<T: FromRow + Send + 'static>(&mut self, statement: Statement<C::Backend>) -> QueryResult<Vec<T>> {
        let rows: Vec<Read<T>> = statement.load(self.connection()?)?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn batch(&mut self, sql: &str) -> QueryResult<()> {
        self.connection()?.batch_execute(sql)
    }

    async fn claim(&mut self, key: InboxKey) -> QueryResult<Claimed> {
        let Self { connection, inbox, .. } = self;
        let connection = connection.as_deref_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        claim(inbox.as_ref(), connection, key)
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_ref()
    }

    async fn claim_all(&mut self, keys: &[InboxKey]) -> QueryResult<bool> {
        let Self { connection, inbox, .. } = self;
        let connection = connection.as_deref_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        inbox.as_ref().map_or(Ok(true), |inbox| all_new(inbox.claim_many(connection, keys)))
    }

    async fn find(&mut self, keys: &[InboxKey]) -> QueryResult<HashSet<Uuid>> {
        let Self { connection, inbox, .. } = self;
        let connection = connection.as_deref_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        inbox.as_ref().map_or(Ok(HashSet::new()), |inbox| inbox.find(connection, keys))
    }

    async fn prune(&mut self) -> QueryResult<bool> {
        let Self { connection, inbox, .. } = self;
        let connection = connection.as_deref_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        let Some(inbox) = inbox else { return Ok(false) };
        Ok(inbox.prune(connection)?.has_more)
    }

    async fn handle(&mut self, record: &Record) -> Result<(), HandlerError> {
        let Self { connection, handler, .. } = self;
        let connection = connection.as_deref_mut().ok_or(diesel::result::Error::BrokenTransactionManager)?;
        handler(connection, record)
    }

    fn block_on<T>((): &(), future: impl Future<Output = T>) -> T {
        let Some(result) = future.now_or_never() else { unreachable!("a sync connection waits for nothing") };
        result
    }
}
