use std::fmt;
use std::sync::Arc;

use diesel::result::{DatabaseErrorKind, Error, QueryResult};

use super::resolver::EndedHalf;
use super::shared::Inner;
use crate::crash_points::crash_point;
#[cfg(feature = "async")]
use crate::enqueue::AsyncOutboxBackend;
use crate::enqueue::{Dialect, EnqueueError, Mark, OutboxBackend};
#[cfg(feature = "async")]
use crate::hook::AsyncConn;
use crate::hook::{Conn, Depth, SyncConn, is_deadlocked};
use crate::message::MessageId;
use crate::outbox::probe::is_transaction_lost;
#[cfg(feature = "async")]
use crate::outbox::probe::is_transaction_lost_async;
use crate::transport::HalfSent;

/// A message that the broker stores but hides until it is told to deliver it. From
/// [`HalfMessages::send`](super::HalfMessages::send).
///
/// Call [`mark`](Self::mark) as the first statement of the transaction that decides about the message, and drop the half message
/// when that transaction is over. The outbox then checks whether the mark was committed, and tells the broker to deliver or drop
/// the message. If the process dies before that, the broker asks.
///
/// A half message that is dropped without a mark is never delivered. If it is dropped while its transaction is still
/// open, it is delivered later, when the broker has asked.
#[must_use = "a half message without a mark in a committed transaction is never delivered"]
pub struct HalfMessage {
    /// It also answers the broker's requests: it lives as long as a message that the broker may ask about.
    shared: Arc<Inner>,
    message_id: MessageId,
    topic: Arc<str>,
    /// `None` once it was dropped.
    sent: Option<HalfSent>,
}

impl HalfMessage {
    pub(super) fn new(shared: Arc<Inner>, message_id: MessageId, topic: Arc<str>, sent: HalfSent) -> Self {
        crash_point!(HALF_SENT);
        Self { shared, message_id, topic, sent: Some(sent) }
    }

    /// The message's id.
    pub fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Ties the message to the connection's open transaction: it is delivered if, and only if, that transaction commits. If you
    /// call it inside a savepoint, that must be released, too.
    ///
    /// Call it as the first statement of the transaction. The broker asks if it hears nothing, by default after six seconds. If
    /// there is no mark by then, the answer is to drop the message. If there is one and its transaction is open, the broker asks
    /// again, by default fifteen times.
    ///
    /// # Errors
    /// Returns an [`EnqueueError`] inside Diesel's error, or the database's own errors:
    /// - [`HalfMessageDropped`](EnqueueError::HalfMessageDropped) if the broker asked first: begin again with a new half message.
    ///   You also get it if an earlier attempt with this half message has committed.
    /// - [`NotInTransaction`](EnqueueError::NotInTransaction) if no transaction is open.
    /// - [`TransactionLost`](EnqueueError::TransactionLost) if the database ended the transaction unnoticed. MySQL cannot detect
    ///   that on a connection without an enqueue, nor PostgreSQL after raw SQL: mark first there.
    /// - [`RowRemoved`](EnqueueError::RowRemoved) if a trigger removes the mark.
    pub fn mark<C>(&self, conn: &mut C) -> QueryResult<()>
    where
        C: diesel::connection::Connection,
        C::Backend: OutboxBackend<C>,
    {
        let at = self.check::<C::Backend>(&mut SyncConn(conn))?;
        if is_transaction_lost(conn, at)? {
            return Err(self.transaction_lost());
        }
        self.marked::<C::Backend>(C::Backend::mark(conn, self.to_mark()))
    }

    /// Like [`mark`](Self::mark), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`mark`](Self::mark).
    ///
    /// # Cancel safety
    /// If the future is dropped, the mark may or may not be in the open transaction: roll it back.
    #[cfg(feature = "async")]
    pub async fn mark_async<C>(&self, conn: &mut C) -> QueryResult<()>
    where
        C: diesel_async::AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        let at = self.check::<C::Backend>(&mut AsyncConn(conn))?;
        if is_transaction_lost_async(conn, at).await? {
            return Err(self.transaction_lost());
        }
        let marked = C::Backend::mark_async(conn, self.to_mark()).await;
        self.marked::<C::Backend>(marked)
    }

    fn to_mark(&self) -> Mark<'_> {
        Mark { table: &self.shared.table, message_id: self.message_id.as_uuid(), topic: &self.topic }
    }

    fn check<B: Dialect>(&self, conn: &mut impl Conn) -> QueryResult<Depth> {
        let at = Depth::of(conn)?;
        if at.depth == 0 {
            return Err(EnqueueError::NotInTransaction { topic: self.topic.to_string() }.into());
        }
        if B::DEADLOCK_ENDS_TRANSACTION && is_deadlocked(conn) {
            return Err(self.transaction_lost());
        }
        Ok(at)
    }

    fn transaction_lost(&self) -> Error {
        EnqueueError::TransactionLost { topic: self.topic.to_string() }.into()
    }

    fn marked<B: Dialect>(&self, marked: QueryResult<usize>) -> QueryResult<()> {
        crash_point!(HALF_MARKED);
        match marked {
            // Only this process, or one that answered the broker, knows this id.
            Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {
                Err(EnqueueError::HalfMessageDropped { topic: self.topic.to_string() }.into())
            }
            Err(error) if B::is_transaction_lost_error(&error) => Err(self.transaction_lost()),
            Ok(0) => Err(EnqueueError::RowRemoved { topic: self.topic.to_string() }.into()),
            marked => marked.map(drop),
        }
    }
}

impl Drop for HalfMessage {
    fn drop(&mut self) {
        let Some(sent) = self.sent.take() else { return };
        crash_point!(HALF_ENDING);
        let counted = self.shared.open.register(None);
        EndedHalf::new(self.message_id, Arc::clone(&self.topic), sent, counted).hand_over(&self.shared.ended);
    }
}

impl fmt::Debug for HalfMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HalfMessage")
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}
