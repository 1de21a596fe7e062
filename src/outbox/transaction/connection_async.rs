use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;

use diesel::connection::{CacheSize, Instrumentation, TransactionManagerStatus};
use diesel::query_builder::{AsQuery, QueryFragment, QueryId};
use diesel::result::{ConnectionError, ConnectionResult, QueryResult};
use diesel_async::{AsyncConnection, AsyncConnectionCore, SimpleAsyncConnection, TransactionManager};

use super::buffered::BufferedMessages;
use crate::message::{MessageId, OutboxMessage};
use crate::receipts::PendingReceipt;

/// The connection inside [`Outbox::transaction_async`](crate::Outbox::transaction_async), which also accepts messages.
///
/// It is itself a connection (`.execute(tx)`). [`connection`](Self::connection) returns the one it wraps, without its
/// pool, for functions that take that. Its nested transactions accept messages too, and drop them when they roll back.
#[derive(Debug)]
pub struct AsyncTransaction<'c, C: 'static> {
    conn: &'c mut C,
    buffered: &'c mut BufferedMessages,
}

impl<'c, C> AsyncTransaction<'c, C> {
    pub(super) fn new(conn: &'c mut C, buffered: &'c mut BufferedMessages) -> Self {
        Self { conn, buffered }
    }

    /// Enqueues a message. It stays in memory until the transaction's last statement writes it.
    ///
    /// The rollback of a savepoint made by raw SQL does not drop the message; that of `tx.transaction(..)` does.
    ///
    /// # Errors
    /// Returns an [`EnqueueError`](crate::EnqueueError) inside Diesel's error.
    pub fn enqueue<M: OutboxMessage + ?Sized>(&mut self, event: &M) -> QueryResult<MessageId> {
        self.buffered.push(event)
    }

    /// Like [`enqueue`](Self::enqueue), with a receipt to wait for the delivery after COMMIT: see
    /// [`PendingReceipt`](crate::receipts::PendingReceipt).
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    pub fn enqueue_with_receipt<M: OutboxMessage + ?Sized>(&mut self, event: &M) -> QueryResult<PendingReceipt> {
        self.buffered.push_with_receipt(event)
    }

    /// Like [`enqueue`](Self::enqueue), for many messages: all or none.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    pub fn enqueue_all<M: OutboxMessage>(
        &mut self,
        events: impl IntoIterator<Item = M>,
    ) -> QueryResult<Vec<MessageId>> {
        self.buffered.push_all(events)
    }

    /// The connection that this transaction wraps, for functions that take that.
    pub fn connection(&mut self) -> &mut C {
        self.conn
    }
}

impl<C> Deref for AsyncTransaction<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.conn
    }
}

impl<C: AsyncConnection + 'static> SimpleAsyncConnection for AsyncTransaction<'_, C> {
    async fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.conn.batch_execute(query).await
    }
}

impl<C: AsyncConnection + 'static> AsyncConnectionCore for AsyncTransaction<'_, C> {
    type ExecuteFuture<'conn, 'query> = C::ExecuteFuture<'conn, 'query>;
    type LoadFuture<'conn, 'query> = C::LoadFuture<'conn, 'query>;
    type Stream<'conn, 'query> = C::Stream<'conn, 'query>;
    type Row<'conn, 'query> = C::Row<'conn, 'query>;
    type Backend = C::Backend;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> Self::LoadFuture<'conn, 'query>
    where
        T: AsQuery + 'query,
        T::Query: QueryFragment<Self::Backend> + QueryId + 'query,
    {
        self.conn.load(source)
    }

    fn execute_returning_count<'conn, 'query, T>(&'conn mut self, source: T) -> Self::ExecuteFuture<'conn, 'query>
    where
        T: QueryFragment<Self::Backend> + QueryId + 'query,
    {
        self.conn.execute_returning_count(source)
    }
}

impl<C: AsyncConnection + 'static> AsyncConnection for AsyncTransaction<'_, C> {
    type TransactionManager = AsyncSavepointManager<C::TransactionManager>;

    async fn establish(_: &str) -> ConnectionResult<Self> {
        Err(ConnectionError::BadConnection(
            "a transaction wraps an open connection; it cannot be established".to_owned(),
        ))
    }

    fn begin_test_transaction(&mut self) -> impl Future<Output = QueryResult<()>> + Send {
        self.conn.begin_test_transaction()
    }

    fn transaction_state(
        &mut self,
    ) -> &mut <Self::TransactionManager as TransactionManager<Self>>::TransactionStateData {
        self.conn.transaction_state()
    }

    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        self.conn.instrumentation()
    }

    fn set_instrumentation(&mut self, instrumentation: impl Instrumentation) {
        self.conn.set_instrumentation(instrumentation);
    }

    fn set_prepared_statement_cache_size(&mut self, size: CacheSize) {
        self.conn.set_prepared_statement_cache_size(size);
    }
}

/// The connection's own transaction manager. It also makes messages follow its savepoints.
#[doc(hidden)]
#[derive(Debug)]
pub struct AsyncSavepointManager<M>(PhantomData<M>);

impl<'c, C: AsyncConnection + 'static> TransactionManager<AsyncTransaction<'c, C>>
    for AsyncSavepointManager<C::TransactionManager>
{
    type TransactionStateData = <C::TransactionManager as TransactionManager<C>>::TransactionStateData;

    async fn begin_transaction(tx: &mut AsyncTransaction<'c, C>) -> QueryResult<()> {
        C::TransactionManager::begin_transaction(tx.conn).await?;
        tx.buffered.begin_savepoint();
        Ok(())
    }

    async fn rollback_transaction(tx: &mut AsyncTransaction<'c, C>) -> QueryResult<()> {
        tx.buffered.release(false);
        C::TransactionManager::rollback_transaction(tx.conn).await
    }

    async fn commit_transaction(tx: &mut AsyncTransaction<'c, C>) -> QueryResult<()> {
        let released = C::TransactionManager::commit_transaction(tx.conn).await;
        tx.buffered.release(released.is_ok());
        released
    }

    fn transaction_manager_status_mut<'t>(tx: &'t mut AsyncTransaction<'c, C>) -> &'t mut TransactionManagerStatus {
        C::TransactionManager::transaction_manager_status_mut(tx.conn)
    }
}
