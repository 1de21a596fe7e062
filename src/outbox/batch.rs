use std::fmt;

use diesel::connection::Connection;
use diesel::result::QueryResult;

use super::Outbox;
use crate::enqueue::OutboxBackend;
use crate::enqueue::encode::Encoded;
use crate::message::{MessageId, OutboxMessage};

/// Messages of any types, written together by [`write`](Self::write): in one statement if the database can. From
/// [`Outbox::batch`].
#[must_use = "the messages are written by `write` or `write_async`"]
pub struct Batch<'o> {
    outbox: &'o Outbox,
    rows: Vec<Encoded>,
}

impl Outbox {
    /// Starts a batch, for events of several types. For events of one type use [`enqueue_all`](Self::enqueue_all).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::codec::{Codec, Json};
    /// use diesel_outbox::{CodecError, Message, Outbox, OutboxMessage, Topic};
    ///
    /// #[derive(serde::Serialize)]
    /// struct OrderPlaced { order_id: i64 }
    /// # impl OutboxMessage for OrderPlaced {
    /// #     const TOPIC: Option<&'static str> = Some("orders");
    /// #     const KIND: &'static str = "order.placed";
    /// #     fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> { Json::encode(self).map(Some) }
    /// # }
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("mails")).build()?;
    /// # outbox.migrate(&mut conn)?;
    ///
    /// let ids = conn.transaction(|conn| {
    ///     // .. the business data, and with it:
    ///     let mail = Message::to("mails").kind("thanks").payload_bytes("Thank you!");
    ///     outbox.batch().add(&OrderPlaced { order_id: 42 })?.add(&mail)?.write(conn)
    /// })?;
    /// assert_eq!(ids.len(), 2);
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch<'_> {
        Batch { outbox: self, rows: Vec::new() }
    }
}

impl Batch<'_> {
    /// Encodes and adds an event. In a loop: `batch = batch.add(&event)?`.
    ///
    /// # Errors
    /// Returns an [`EnqueueError`](crate::EnqueueError) inside Diesel's error. Then nothing of the batch is written.
    #[expect(clippy::should_implement_trait, reason = "a builder's method, not an operator")]
    pub fn add<M: OutboxMessage + ?Sized>(mut self, event: &M) -> QueryResult<Self> {
        self.rows.push(self.outbox.encode(event)?);
        Ok(self)
    }

    /// Writes the messages in the connection's open transaction, all or none. Returns their ids in the order in which they were
    /// added.
    ///
    /// # Errors
    /// As for [`enqueue`](Outbox::enqueue).
    pub fn write<C>(self, conn: &mut C) -> QueryResult<Vec<MessageId>>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        let message_ids = self.message_ids();
        self.outbox.write(conn, self.rows)?;
        Ok(message_ids)
    }

    /// Like [`write`](Self::write), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`enqueue`](Outbox::enqueue).
    ///
    /// # Cancel safety
    /// As for [`enqueue_all_async`](Outbox::enqueue_all_async).
    #[cfg(feature = "async")]
    pub async fn write_async<C>(self, conn: &mut C) -> QueryResult<Vec<MessageId>>
    where
        C: diesel_async::AsyncConnection,
        C::Backend: crate::enqueue::AsyncOutboxBackend<C>,
    {
        let message_ids = self.message_ids();
        self.outbox.write_async(conn, self.rows).await?;
        Ok(message_ids)
    }

    fn message_ids(&self) -> Vec<MessageId> {
        self.rows.iter().map(|row| row.message_id).collect()
    }
}

// Without payloads, as everywhere.
impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("messages", &self.rows.len()).finish_non_exhaustive()
    }
}
