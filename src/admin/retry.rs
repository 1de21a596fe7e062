use serde_json::json;

use super::{Admin, AdminError, SendNowOutcome};
use crate::events::log_event;
use crate::message::{Delivery, MessageId, OutboxMessage};
use crate::metrics;
use crate::store::AuditRecord;

/// What [`Admin::retry_send`] did with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryOutcome {
    /// It was waiting, and is due now.
    Due,
    /// Nothing had to be done: it is due already, is being sent, or will be tried within a lease.
    Soon,
    /// It was a dead letter, and is redriven.
    Redriven,
}

/// Retries.
impl Admin {
    /// Makes sure that a message is tried again, wherever it is: [`send_now`](Self::send_now) if it is waiting,
    /// [`redrive`](Self::redrive) if it is a dead letter. For callers that have an id and do not know which.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::{AdminError, RetryOutcome};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{MessageId, Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// # let message_id = MessageId::new();
    /// match admin.retry_send(message_id).await {
    ///     Ok(RetryOutcome::Redriven) => println!("it was dead"),
    ///     Ok(_) => println!("it waited"),
    ///     Err(AdminError::NotFound { .. }) => println!("it was sent long ago"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](AdminError::NotFound), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, it may or may not be done. Call again.
    pub async fn retry_send(&self, message_id: MessageId) -> Result<RetryOutcome, AdminError> {
        let record = self.record_one("retry_send", message_id).await?;
        // Twice, because somebody else may redrive it between the two lookups.
        for _ in 0..2 {
            match self.send_now_recorded(message_id, record.as_ref()).await {
                Ok(SendNowOutcome::Due) => return Ok(RetryOutcome::Due),
                Ok(_) => return Ok(RetryOutcome::Soon),
                Err(AdminError::NotWaiting { .. }) => {}
                Err(error) => return Err(error),
            }
            match self.redrive_recorded(message_id, record.as_ref()).await {
                Ok(()) => return Ok(RetryOutcome::Redriven),
                Err(AdminError::NotDeadLetter { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(AdminError::NotFound { message_id })
    }

    /// Sends an edited message in place of a dead letter: with another payload, headers, key or topic. It is checked as at enqueue
    /// and written under **a new message id**, which is returned. The dead letter is removed in the same transaction.
    ///
    /// It gets a new id because consumers know other content under the old one. On an ordered topic it is queued after all live
    /// messages of its key, as with every redrive.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use std::time::SystemTime;
    /// # use diesel_outbox::internals::store::{NewDeadLetter, Held, InsertOptions, Store};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let store = MemoryStore::new();
    /// # let key = store.insert(Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH), InsertOptions::default());
    /// # store.dead_letter(&[NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused: no such field".into() }]).await?;
    /// # let (admin, message_id) = (outbox.admin(store), key.message_id);
    /// let letter = admin.dead_letter(message_id).await?;
    /// let edited = letter.to_message()?.payload_bytes(r#"{"order_id":42}"#);
    /// let new_id = admin.redrive_edited(message_id, &edited).await?;
    /// assert_ne!(new_id, message_id);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`NotDeadLetter`](AdminError::NotDeadLetter), [`Refused`](AdminError::Refused),
    /// [`DelayedRedrive`](AdminError::DelayedRedrive), or a database error. The dead letter stays as it was.
    ///
    /// # Cancel safety
    /// If the future is dropped, the dead letter may or may not be replaced. Check whether it is still there.
    pub fn redrive_edited<'a, M: OutboxMessage + ?Sized>(
        &'a self,
        message_id: MessageId,
        edited: &M,
    ) -> impl Future<Output = Result<MessageId, AdminError>> + Send + use<'a, M> {
        let encoded = self.outbox.encode_checked(edited);
        async move {
            let encoded = encoded?;
            if encoded.delivery != Delivery::Now {
                return Err(AdminError::DelayedRedrive { message_id });
            }
            let lane = encoded.lane;
            let by = encoded.into_envelope(std::time::SystemTime::UNIX_EPOCH);
            let replaced_by = json!({ "replaced_by": by.message_id });
            let record = self.record_with("redrive_edited", &replaced_by).await?;
            let record = record.map(|record| AuditRecord { message_id: Some(message_id), ..record });
            if !self.admin_store()?.replace(message_id, &by, lane, record.as_ref()).await? {
                return Err(AdminError::NotDeadLetter { message_id });
            }
            log_event!(DEAD_LETTER_EDITED, %message_id, new_id = %by.message_id, topic = &*by.topic);
            ::metrics::counter!(metrics::REDRIVEN).increment(1);
            self.wake();
            Ok(by.message_id)
        }
    }
}
