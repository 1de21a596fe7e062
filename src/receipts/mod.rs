//! Receipts: waiting for the delivery of a message that was committed.
//!
//! A receipt lives in the process that enqueued the message. Nothing is stored.

mod status;
mod waiters;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::status::DeliveryStatus;
use self::waiters::{CommitState, Shared};
pub(crate) use self::waiters::{Ticket, Waiters};
use crate::message::MessageId;

/// The receipt of a message whose transaction may still be open. From
/// [`Outbox::enqueue_with_receipt`](crate::Outbox::enqueue_with_receipt).
///
/// It cannot be awaited. Take it out of the transaction, and exchange it for a [`DeliveryReceipt`] after COMMIT.
#[must_use = "nobody else can wait for the delivery"]
#[derive(Debug)]
pub struct PendingReceipt {
    handle: Handle,
}

impl PendingReceipt {
    pub(crate) fn new(message_id: MessageId) -> (Self, Ticket) {
        let shared = Arc::<Shared>::default();
        (Self { handle: Handle { message_id, shared: Arc::clone(&shared) } }, Ticket::new(message_id, shared))
    }

    /// The message.
    pub fn message_id(&self) -> MessageId {
        self.handle.message_id
    }

    /// The receipt, once the message was committed.
    ///
    /// It is what the commit hook saw. Where the hook sees nothing (a process without a relay, your own instrumentation, a
    /// COMMIT whose answer was lost), the receipt says [`Elsewhere`](DeliveryStatus::Elsewhere).
    ///
    /// # Errors
    /// Returns an error, and with it this receipt, if the transaction is still open or was rolled back.
    pub fn into_receipt(self) -> Result<DeliveryReceipt, NotCommitted> {
        let commit = self.handle.shared.state().commit;
        match commit {
            CommitState::Committed | CommitState::Unseen => Ok(DeliveryReceipt { handle: self.handle }),
            CommitState::Open => Err(NotCommitted { receipt: self, is_rolled_back: false }),
            CommitState::RolledBack => Err(NotCommitted { receipt: self, is_rolled_back: true }),
        }
    }
}

/// A message was not committed, so there is no delivery to wait for.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotCommitted {
    /// The receipt, to ask again.
    pub receipt: PendingReceipt,
    /// Whether its transaction was rolled back, so that it is never sent. Otherwise the transaction is still open.
    pub is_rolled_back: bool,
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.is_rolled_back {
            true => "its transaction was rolled back, so it is never sent",
            false => "its transaction is still open: ask after it has committed",
        };
        write!(f, "message {} has no receipt: {reason}", self.receipt.message_id())
    }
}

impl std::error::Error for NotCommitted {}

/// The receipt of a message that has committed, as far as the commit hook saw. From [`PendingReceipt::into_receipt`].
#[derive(Debug)]
pub struct DeliveryReceipt {
    handle: Handle,
}

impl DeliveryReceipt {
    /// The message.
    pub fn message_id(&self) -> MessageId {
        self.handle.message_id
    }

    /// Waits until the message is sent or a dead letter, at most `duration`. Then the answer is
    /// [`Later`](DeliveryStatus::Later), and you may ask again.
    ///
    /// # Panics
    /// Panics outside a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    /// Cancelling only stops the wait.
    pub async fn within(&self, duration: Duration) -> DeliveryStatus {
        let answered = tokio::time::timeout(duration, self.handle.shared.answered()).await;
        answered.unwrap_or(DeliveryStatus::Later)
    }

    /// Like [`within`](Self::within), without a runtime.
    pub fn within_blocking(&self, duration: Duration) -> DeliveryStatus {
        self.handle.shared.answered_by(Instant::now().checked_add(duration)).unwrap_or(DeliveryStatus::Later)
    }
}

/// The waiting side. When it is dropped, nobody waits any more.
struct Handle {
    message_id: MessageId,
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.abandon(self.message_id);
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.message_id).finish()
    }
}
