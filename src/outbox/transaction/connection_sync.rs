use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use diesel::connection::{
    CacheSize, Connection, ConnectionSealed, Instrumentation, LoadConnection, SimpleConnection, TransactionManager,
    TransactionManagerStatus,
};
use diesel::expression::QueryMetadata;
use diesel::query_builder::{Query, QueryFragment, QueryId};
use diesel::result::{ConnectionError, ConnectionResult, QueryResult};

use super::buffered::BufferedMessages;
use crate::message::{MessageId, OutboxMessage};
use crate::receipts::PendingReceipt;

/// The connection inside [`Outbox::transaction`](crate::Outbox::transaction), which also accepts messages.
///
/// It is itself a connection (`.execute(tx)`) and dereferences to the one it wraps, for functions that take that. Its
/// nested transactions accept messages too, and drop them when they roll back.
#[derive(Debug)]
pub struct Transaction<'c, C> {
    conn: &'c mut C,
    buffered: BufferedMessages,
}

impl<'c, C> Transaction<'c, C> {
    pub(super) fn new(conn: &'c mut C, buffered: BufferedMessages) -> Self {
        Self { conn, buffered }
    }

    pub(super) fn into_parts(self) -> (&'c mut C, BufferedMessages) {
        (self.conn, self.buffered)
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

    /// Like [`enqueue`](Self::enqueue), with a receipt to wait for the delivery after COMMIT.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use std::time::Duration;
    /// use diesel::SqliteConnection;
    /// use diesel_outbox::receipts::DeliveryStatus;
    /// use diesel_outbox::{Message, Outbox};
    ///
    /// fn place(conn: &mut SqliteConnection, outbox: &Outbox) -> diesel::QueryResult<bool> {
    ///     let receipt = outbox.transaction(conn, |tx| {
    ///         // .. the business data, and with it:
    ///         tx.enqueue_with_receipt(&Message::to("orders").key("42"))
    ///     })?;
    ///     let receipt = receipt.into_receipt().expect("the transaction committed");
    ///     let status = receipt.within_blocking(Duration::from_secs(1));
    ///     Ok(matches!(status, DeliveryStatus::Acknowledged { .. }))
    /// }
    /// # }
    /// ```
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
}

impl<C> Deref for Transaction<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.conn
    }
}

impl<C> DerefMut for Transaction<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        self.conn
    }
}

impl<C: Connection> SimpleConnection for Transaction<'_, C> {
    fn batch_execute(&mut self, query: &str) -> QueryResult<()> {
        self.conn.batch_execute(query)
    }
}

impl<C: Connection> ConnectionSealed for Transaction<'_, C> {}

impl<C: Connection> Connection for Transaction<'_, C> {
    type Backend = C::Backend;
    type TransactionManager = SavepointManager<C::TransactionManager>;

    fn establish(_: &str) -> ConnectionResult<Self> {
        Err(ConnectionError::BadConnection(
            "a transaction wraps an open connection; it cannot be established".to_owned(),
        ))
    }

    fn begin_test_transaction(&mut self) -> QueryResult<()> {
        self.conn.begin_test_transaction()
    }

    fn execute_returning_count<T>(&mut self, source: &T) -> QueryResult<usize>
    where
        T: QueryFragment<Self::Backend> + QueryId,
    {
        self.conn.execute_returning_count(source)
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

impl<B, C: LoadConnection<B>> LoadConnection<B> for Transaction<'_, C> {
    type Cursor<'conn, 'query>
        = C::Cursor<'conn, 'query>
    where
        Self: 'conn;
    type Row<'conn, 'query>
        = C::Row<'conn, 'query>
    where
        Self: 'conn;

    fn load<'conn, 'query, T>(&'conn mut self, source: T) -> QueryResult<Self::Cursor<'conn, 'query>>
    where
        T: Query + QueryFragment<Self::Backend> + QueryId + 'query,
        Self::Backend: QueryMetadata<T::SqlType>,
    {
        self.conn.load(source)
    }
}

/// The connection's own transaction manager. It also makes messages follow its savepoints.
#[doc(hidden)]
#[derive(Debug)]
pub struct SavepointManager<M>(PhantomData<M>);

impl<'c, C: Connection> TransactionManager<Transaction<'c, C>> for SavepointManager<C::TransactionManager> {
    type TransactionStateData = <C::TransactionManager as TransactionManager<C>>::TransactionStateData;

    fn begin_transaction(tx: &mut Transaction<'c, C>) -> QueryResult<()> {
        C::TransactionManager::begin_transaction(tx.conn)?;
        tx.buffered.begin_savepoint();
        Ok(())
    }

    fn rollback_transaction(tx: &mut Transaction<'c, C>) -> QueryResult<()> {
        tx.buffered.release(false);
        C::TransactionManager::rollback_transaction(tx.conn)
    }

    fn commit_transaction(tx: &mut Transaction<'c, C>) -> QueryResult<()> {
        let released = C::TransactionManager::commit_transaction(tx.conn);
        tx.buffered.release(released.is_ok());
        released
    }

    fn transaction_manager_status_mut<'t>(tx: &'t mut Transaction<'c, C>) -> &'t mut TransactionManagerStatus {
        C::TransactionManager::transaction_manager_status_mut(tx.conn)
    }
}
