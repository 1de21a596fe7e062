use diesel::connection::Connection;
use diesel::result::QueryResult;

use super::Outbox;
use super::probe::is_transaction_lost;
use super::unsent::address_of;
use super::write::{WriteContext, map_refusal, needs_transaction, transaction_lost};
use crate::enqueue::encode::Encoded;
use crate::enqueue::{Inserted, OutboxBackend, StillThere, next_statement_rows};
use crate::hook::{SyncConn, hold_until_commit};
use crate::message::{MessageId, OutboxMessage};
use crate::receipts::PendingReceipt;

/// Enqueue over Diesel's own connections.
impl Outbox {
    /// Writes a message in the connection's open transaction. It is sent if, and only if, that transaction commits. Returns the
    /// message's id.
    ///
    /// Outside a transaction it fails, unless the outbox [allows that](crate::OutboxBuilder::allow_outside_transaction).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::{EnqueueError, Message, Outbox, Topic};
    /// # use diesel_migrations::MigrationHarness;
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// conn.transaction(|conn| outbox.enqueue(conn, &Message::to("orders").payload_bytes("placed")))?;
    ///
    /// let error = conn.transaction(|conn| outbox.enqueue(conn, &Message::to("ordres"))).unwrap_err();
    /// assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::UnknownTopic { .. })));
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the database's own errors unchanged, or an [`EnqueueError`](crate::EnqueueError) inside Diesel's error.
    /// [`EnqueueError::of`](crate::EnqueueError::of) finds it there.
    pub fn enqueue<C, M>(&self, conn: &mut C, event: &M) -> QueryResult<MessageId>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        M: OutboxMessage + ?Sized,
    {
        let row = self.encode(event)?;
        let message_id = row.message_id;
        self.write(conn, vec![row])?;
        Ok(message_id)
    }

    /// Like [`enqueue`](Self::enqueue), with a receipt to wait for the delivery after COMMIT.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use std::time::Duration;
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::receipts::DeliveryStatus;
    /// # use diesel_outbox::{Message, Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # outbox.migrate(&mut conn)?;
    /// let receipt = conn.transaction(|conn| outbox.enqueue_with_receipt(conn, &Message::to("orders")))?;
    /// let receipt = receipt.into_receipt()?;
    /// // No relay runs in this process.
    /// assert_eq!(receipt.within_blocking(Duration::from_secs(1)), DeliveryStatus::Elsewhere);
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    pub fn enqueue_with_receipt<C, M>(&self, conn: &mut C, event: &M) -> QueryResult<PendingReceipt>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        M: OutboxMessage + ?Sized,
    {
        let mut row = self.encode(event)?;
        let receipt = row.receipt();
        self.write(conn, vec![row])?;
        Ok(receipt)
    }

    /// Writes many messages of one type, all or none: in one statement if the database can. Returns their ids in the same order.
    ///
    /// For events of different types use a [`batch`](Self::batch).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::{Message, Outbox, Topic};
    /// # use diesel_migrations::MigrationHarness;
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// let messages = (0..1_000).map(|key| Message::to("orders").key(key.to_string()));
    /// let ids = conn.transaction(|conn| outbox.enqueue_all(conn, messages))?;
    /// assert_eq!(ids.len(), 1_000);
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue). If one message is refused, none is written.
    pub fn enqueue_all<C, M, I>(&self, conn: &mut C, events: I) -> QueryResult<Vec<MessageId>>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        M: OutboxMessage,
        I: IntoIterator<Item = M>,
    {
        let rows = self.encode_all(events)?;
        let message_ids = rows.iter().map(|row| row.message_id).collect();
        self.write(conn, rows)?;
        Ok(message_ids)
    }

    pub(super) fn write<C>(&self, conn: &mut C, rows: Vec<Encoded>) -> QueryResult<()>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        if rows.is_empty() {
            return Ok(());
        }
        let context = self.check_write::<C::Backend>(&mut SyncConn(conn), &rows)?;
        if needs_transaction::<C::Backend>(&rows, context) {
            return conn.transaction(|conn| self.write(conn, rows));
        }
        if is_transaction_lost(conn, context.at)? {
            return Err(transaction_lost(&rows));
        }
        let before = self.statements(&mut SyncConn(conn), context);
        let inserted = self.insert_all(conn, &rows, context)?;
        self.check_unsent(conn, context)?;
        self.remember_unsent(context, &rows, &inserted, address_of(conn));
        let inline = Self::may_verify::<C::Backend>(&rows, context);
        hold_until_commit(&mut SyncConn(conn), self.pending(rows, &inserted, context, inline), context.at, before);
        Ok(())
    }

    /// After the INSERT, because on SQLite a transaction that reads first may not be able to write.
    pub(super) fn check_unsent<C>(&self, conn: &mut C, context: WriteContext) -> QueryResult<()>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        let Some(row) = self.unsent_sample::<C::Backend>(context, address_of(conn)) else { return Ok(()) };
        let found = C::Backend::is_still_there(conn, StillThere::new(&self.inner.messages, row));
        self.note_unsent::<C::Backend>(found)
    }

    pub(super) fn insert_all<C>(
        &self,
        conn: &mut C,
        rows: &[Encoded],
        context: WriteContext,
    ) -> QueryResult<Vec<Inserted>>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        let mut inserted = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(next_statement_rows::<C::Backend>(rest));
            let locked = if inserted.is_empty() { rows } else { &[] };
            let insertion = self.insertion(now, locked, context);
            let written = C::Backend::insert(conn, insertion);
            inserted.extend(written.map_err(|error| map_refusal::<C::Backend>(error, now))?);
            rest = later;
        }
        Ok(inserted)
    }
}
