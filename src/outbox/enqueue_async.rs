use std::future::Future;

use diesel::result::QueryResult;
use diesel_async::{AsyncConnection, TransactionManager};

use super::Outbox;
use super::commit_async::commit_async;
use super::probe::is_transaction_lost_async;
use super::unsent::address_of;
use super::write::{WriteContext, error_after_rollback, map_refusal, needs_transaction, transaction_lost};
use crate::enqueue::encode::Encoded;
use crate::enqueue::{AsyncOutboxBackend, Inserted, StillThere, next_statement_rows};
use crate::hook::{AsyncConn, hold_until_commit};
use crate::message::{MessageId, OutboxMessage};
use crate::receipts::PendingReceipt;

/// Enqueue over diesel-async connections.
impl Outbox {
    /// Like [`enqueue`](Self::enqueue), over a diesel-async connection.
    ///
    /// The call encodes the event at once, before the future is polled. So the event need not be `Send` and need not live as long
    /// as the future.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] {
    /// use diesel_async::{AsyncConnection, AsyncPgConnection};
    /// use diesel_outbox::{Message, Outbox};
    ///
    /// async fn place(conn: &mut AsyncPgConnection, outbox: &Outbox) -> diesel::QueryResult<()> {
    ///     conn.transaction(async |conn| {
    ///         // .. the business data, and with it:
    ///         outbox.enqueue_async(conn, &Message::to("orders").key("42")).await?;
    ///         Ok(())
    ///     })
    ///     .await
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not be in the open transaction: roll that back. If the message was
    /// written and the transaction commits, it is sent: at once, or by the sweeper.
    pub fn enqueue_async<'a, C, M>(
        &'a self,
        conn: &'a mut C,
        event: &M,
    ) -> impl Future<Output = QueryResult<MessageId>> + Send + use<'a, C, M>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        M: OutboxMessage + ?Sized,
    {
        let row = self.encode(event);
        async move {
            let row = row?;
            let message_id = row.message_id;
            self.write_async(conn, vec![row]).await?;
            Ok(message_id)
        }
    }

    /// Like [`enqueue_with_receipt`](Self::enqueue_with_receipt), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    ///
    /// # Cancel safety
    /// As for [`enqueue_async`](Self::enqueue_async).
    pub fn enqueue_with_receipt_async<'a, C, M>(
        &'a self,
        conn: &'a mut C,
        event: &M,
    ) -> impl Future<Output = QueryResult<PendingReceipt>> + Send + use<'a, C, M>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        M: OutboxMessage + ?Sized,
    {
        let row = self.encode(event);
        async move {
            let mut row = row?;
            let receipt = row.receipt();
            self.write_async(conn, vec![row]).await?;
            Ok(receipt)
        }
    }

    /// Like [`enqueue_all`](Self::enqueue_all), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`enqueue_all`](Self::enqueue_all).
    ///
    /// # Cancel safety
    /// As for [`enqueue_async`](Self::enqueue_async). Outside a transaction a large call opens its own, which a dropped future
    /// leaves open: discard the connection, as pools do.
    pub fn enqueue_all_async<'a, C, M, I>(
        &'a self,
        conn: &'a mut C,
        events: I,
    ) -> impl Future<Output = QueryResult<Vec<MessageId>>> + Send + use<'a, C, M, I>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
        M: OutboxMessage,
        I: IntoIterator<Item = M>,
    {
        let rows = self.encode_all(events);
        async move {
            let rows = rows?;
            let message_ids = rows.iter().map(|row| row.message_id).collect();
            self.write_async(conn, rows).await?;
            Ok(message_ids)
        }
    }

    pub(super) async fn write_async<C>(&self, conn: &mut C, rows: Vec<Encoded>) -> QueryResult<()>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        if rows.is_empty() {
            return Ok(());
        }
        let context = self.check_write::<C::Backend>(&mut AsyncConn(conn), &rows)?;
        if !needs_transaction::<C::Backend>(&rows, context) {
            if is_transaction_lost_async(conn, context.at).await? {
                return Err(transaction_lost(&rows));
            }
            return self.write_in_transaction_async(conn, rows, context).await;
        }
        // Several statements outside a transaction: one of our own makes them all or none.
        C::TransactionManager::begin_transaction(conn).await?;
        let context = self.check_write::<C::Backend>(&mut AsyncConn(conn), &rows)?;
        match self.write_in_transaction_async(conn, rows, context).await {
            Ok(()) => commit_async(conn).await,
            Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
        }
    }

    async fn write_in_transaction_async<C>(
        &self,
        conn: &mut C,
        rows: Vec<Encoded>,
        context: WriteContext,
    ) -> QueryResult<()>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        let before = self.statements(&mut AsyncConn(conn), context);
        let inserted = self.insert_all_async(conn, &rows, context).await?;
        self.check_unsent_async(conn, context).await?;
        self.remember_unsent(context, &rows, &inserted, address_of(conn));
        let inline = Self::may_verify::<C::Backend>(&rows, context);
        hold_until_commit(&mut AsyncConn(conn), self.pending(rows, &inserted, context, inline), context.at, before);
        Ok(())
    }

    pub(super) async fn check_unsent_async<C>(&self, conn: &mut C, context: WriteContext) -> QueryResult<()>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        let Some(row) = self.unsent_sample::<C::Backend>(context, address_of(conn)) else { return Ok(()) };
        let found = C::Backend::is_still_there_async(conn, StillThere::new(&self.inner.messages, row)).await;
        self.note_unsent::<C::Backend>(found)
    }

    pub(super) async fn insert_all_async<C>(
        &self,
        conn: &mut C,
        rows: &[Encoded],
        context: WriteContext,
    ) -> QueryResult<Vec<Inserted>>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        let mut inserted = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(next_statement_rows::<C::Backend>(rest));
            let locked = if inserted.is_empty() { rows } else { &[] };
            let insertion = self.insertion(now, locked, context);
            let written = C::Backend::insert_async(conn, insertion).await;
            inserted.extend(written.map_err(|error| map_refusal::<C::Backend>(error, now))?);
            rest = later;
        }
        Ok(inserted)
    }
}
