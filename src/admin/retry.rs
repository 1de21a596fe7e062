use super::{Admin, AdminError, SendNowOutcome};
use crate::message::{Delivery, MessageId, OutboxMessage};
use crate::metrics;

/// What [`Admin::retry_send`] did about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryOutcome {
    /// It waited, and is due now.
    Due,
    /// It is due already, is being sent, or will be tried within a lease: nothing had to be done.
    Soon,
    /// It was dead, and is redriven.
    Redriven,
}

/// Sending once more.
impl Admin {
    /// Sees to it that a message is tried again, wherever it is: [`send_now`](Self::send_now) where it waits,
    /// [`redrive`](Self::redrive) where it is dead. For whoever has an id and does not want to look first.
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
    /// [`NotFound`](AdminError::NotFound), or what the database says.
    ///
    /// # Cancel safety
    /// Dropped, the future may have done it or not; ask again.
    pub async fn retry_send(&self, message_id: MessageId) -> Result<RetryOutcome, AdminError> {
        // Twice, because it may be redriven by somebody else between the two looks.
        for _ in 0..2 {
            match self.send_now(message_id).await {
                Ok(SendNowOutcome::Due) => return Ok(RetryOutcome::Due),
                Ok(_) => return Ok(RetryOutcome::Soon),
                Err(AdminError::NotWaiting { .. }) => {}
                Err(error) => return Err(error),
            }
            match self.redrive(message_id).await {
                Ok(()) => return Ok(RetryOutcome::Redriven),
                Err(AdminError::NotDeadLetter { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(AdminError::NotFound { message_id })
    }

    /// Sends another message in place of a dead letter: one with another payload, other headers, another key or topic. It is
    /// checked as at enqueue, written under **a new message id**, which is returned, and the letter is removed with it in one
    /// transaction.
    ///
    /// A new id, because what consumers know under the old one had another content. On an ordered topic it goes behind
    /// everything of its key that is there, like every redrive.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use std::time::SystemTime;
    /// # use diesel_outbox::store::{NewDeadLetter, Held, InsertOptions, MemoryStore, Store};
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
    /// [`NotDeadLetter`](AdminError::NotDeadLetter), [`Refused`](AdminError::Refused), [`DelayedRedrive`](AdminError::DelayedRedrive), or what
    /// the database says. The letter stays as it was.
    ///
    /// # Cancel safety
    /// Dropped, the future may have replaced the letter or not; look whether it is still dead.
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
            if !self.admin_store()?.replace(message_id, &by, lane).await? {
                return Err(AdminError::NotDeadLetter { message_id });
            }
            tracing::info!(%message_id, new_id = %by.message_id, topic = &*by.topic, "a dead letter was edited and redriven");
            ::metrics::counter!(metrics::REDRIVEN).increment(1);
            self.wake();
            Ok(by.message_id)
        }
    }
}
