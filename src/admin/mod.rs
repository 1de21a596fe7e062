//! What people and jobs do to messages beside the running relays: one handle, async and blocking.

mod blocking;
mod dead_letters;
mod error;
mod history;
mod lanes;
mod pauses;
mod payload;
mod redrive_pace;
mod retry;
#[cfg(test)]
mod tests;

pub use blocking::BlockingAdmin;
pub use dead_letters::DeadLetterPage;
pub use error::AdminError;
pub use history::{SentPage, UnprocessedFilter};
pub use payload::PayloadText;
pub use redrive_pace::RedriveRate;
pub use retry::RetryOutcome;

pub use crate::store::{
    DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, FailureNote, PausedTopic, SendNowOutcome,
};
pub use crate::store::{ProcessedOutcome, SentCount, SentCursor, SentMessage};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::Limits;
use crate::message::MessageId;
use crate::metrics;
use crate::outbox::Outbox;
use crate::store::{AdminStore, CancelOutcome, Store};

/// Looks after the messages of an outbox: cancels delayed ones, sends waiting ones now, pauses topics, lists, redrives and purges
/// dead letters, and looks up, confirms and sends again what is in the history. Made by [`Outbox::admin`].
///
/// A cheap handle: clones share the store. Nothing here needs a relay in this process, and everything is safe beside
/// those of any.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::{Duration, SystemTime};
/// use diesel_outbox::admin::AdminError;
/// use diesel_outbox::store::{InsertOptions, MemoryStore};
/// use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("reminders")).build()?;
/// let store = MemoryStore::new();
/// # let envelope = Envelope::new(MessageId::new(), "reminders".into(), SystemTime::UNIX_EPOCH);
/// # let delayed = InsertOptions::default().deliver_after(Duration::from_secs(3_600));
/// # let message_id = store.insert(envelope, delayed).message_id;
/// let admin = outbox.admin(store);
/// // The id is what `enqueue` returned.
/// admin.cancel(message_id).await?;
/// assert!(matches!(admin.cancel(message_id).await, Err(AdminError::NotDelayed { .. })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Admin {
    outbox: Outbox,
    store: Arc<dyn Store>,
    /// The longest lease of any relay.
    lease_duration: Duration,
}

impl Outbox {
    /// The handle to look after messages, through a store like that of a relay.
    ///
    /// For services, jobs and tools alike: the store may have a pool of one connection. An outbox without topics will do, unless
    /// messages are to be sent again of a topic that has become ordered since, or is no longer.
    pub fn admin(&self, mut store: impl Store) -> Admin {
        store.use_tables(self.tables());
        let lease_duration = Limits::default().lease_duration;
        Admin { outbox: self.clone(), store: Arc::new(store), lease_duration }
    }
}

impl Admin {
    /// Takes back a delayed message that is not sent yet. Once it is cancelled, no relay sends it any more.
    ///
    /// Beside running relays one of the two wins: the message is cancelled and not sent, or it is
    /// [`AlreadyClaimed`](AdminError::AlreadyClaimed) and goes its way. A message whose time has come while no relay could send
    /// it, as in an outage, can still be cancelled; only where the claim of a relay ended by a crash may it have been sent
    /// before.
    ///
    /// # Errors
    /// [`NotDelayed`](AdminError::NotDelayed), [`AlreadyClaimed`](AdminError::AlreadyClaimed), or what the database says.
    ///
    /// # Cancel safety
    /// Dropped, the future may have cancelled the message or not; ask again.
    pub async fn cancel(&self, message_id: MessageId) -> Result<(), AdminError> {
        match self.admin_store()?.cancel(message_id).await? {
            CancelOutcome::Cancelled { topic } => {
                ::metrics::counter!(metrics::CANCELLED, "topic" => topic).increment(1);
                Ok(())
            }
            CancelOutcome::AlreadyClaimed => Err(AdminError::AlreadyClaimed { message_id }),
            CancelOutcome::NotFound => Err(AdminError::NotDelayed { message_id }),
        }
    }

    /// The longest [`lease_duration`](crate::Limits::lease_duration) of the relays, where they have another than the default: what
    /// is due within it may be in the hands of one.
    #[must_use]
    pub fn lease_duration(mut self, lease: Duration) -> Self {
        self.lease_duration = lease;
        self
    }

    /// Sends a message now that waits for its delivery time, or for its next attempt.
    ///
    /// A message that would be tried within a lease (30 s) anyhow is left as it is ([`SendNowOutcome::Soon`]): it may be in the hands of
    /// a relay, and to take it from there would send it twice. Messages of ordered topics are not found: the owner of their lane
    /// tries the first message of a key by itself, and every key at once when the topic was [paused](Self::pause) and is
    /// [resumed](Self::resume).
    ///
    /// # Errors
    /// [`NotWaiting`](AdminError::NotWaiting), or what the database says.
    ///
    /// # Cancel safety
    /// Dropped, the future may have made the message due or not; ask again.
    pub async fn send_now(&self, message_id: MessageId) -> Result<SendNowOutcome, AdminError> {
        let outcome = self.admin_store()?.send_now(message_id, self.lease_duration).await?;
        match outcome {
            SendNowOutcome::NotFound => Err(AdminError::NotWaiting { message_id }),
            SendNowOutcome::Due => {
                self.wake();
                Ok(outcome)
            }
            SendNowOutcome::Soon => Ok(outcome),
        }
    }

    /// Tells the relay of this process, if there is one. The others look within their poll interval.
    fn wake(&self) {
        self.outbox.link().wake();
    }

    fn admin_store(&self) -> Result<&dyn AdminStore, AdminError> {
        self.store.admin().ok_or(AdminError::Unsupported)
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("outbox", &self.outbox).field("store", &self.store).finish()
    }
}
