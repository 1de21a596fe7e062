//! What people and jobs do to messages while relays run: one handle, async and blocking.

mod audit;
mod blocked;
mod blocking;
mod canary;
mod checks;
mod cursor;
mod dead_letters;
mod error;
mod history;
mod lanes;
mod live;
mod live_walk;
mod overview;
mod page;
mod parked;
mod pauses;
mod payload;
mod redrive_canary;
mod redrive_rate;
mod retry;
mod sent_scan;
#[cfg(test)]
mod tests;
mod topics;

pub use blocked::BlockedKey;
pub use blocking::BlockingAdmin;
pub use canary::{Canary, CanaryHalt, CanaryReport, CanaryStep};
pub use cursor::Cursor;
pub use error::AdminError;
pub use history::UnprocessedFilter;
pub use page::Page;
pub use payload::PayloadText;
pub use redrive_rate::RedriveRate;
pub use retry::RetryOutcome;
pub use topics::TopicStatus;

pub use crate::store::admin::SendNowOutcome;
pub use crate::store::audit::{AuditEntry, AuditFilter};
pub use crate::store::dead_letter::{DeadLetter, DeadLetterCount, DeadLetterFilter, FailedAttempt};
pub use crate::store::dead_letter_reason::DeadLetterReason;
pub use crate::store::history::{ProcessedOutcome, SentCount, SentMessage};
pub use crate::store::live::{BoundedCount, LiveCount, LiveFilter, LiveMessage, LiveState};
pub use crate::store::parked::ParkedRecord;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::limits::Limits;
use crate::message::MessageId;
use crate::metrics;
use crate::outbox::Outbox;
use crate::store::{AdminStore, AuditRecord, CancelOutcome, OutboxStore, Store, shared};

/// Manages the messages of an outbox. It lists live ones, cancels those that nobody holds, sends waiting ones now, and pauses topics. It
/// lists, redrives and purges dead letters. It looks up and resends messages in the history, and takes the reports of consumers. It
/// records who did it ([`acting_as`](Self::acting_as)). Made by [`Outbox::admin`].
///
/// A cheap handle: clones share the store. It needs no relay in this process, and is safe to use while relays run anywhere.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::{Duration, SystemTime};
/// use diesel_outbox::admin::AdminError;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("reminders")).build()?;
/// let store = MemoryStore::new();
/// # let message_id = MessageId::new();
/// # let mut reminder = Envelope::new(message_id, "reminders".into(), SystemTime::UNIX_EPOCH);
/// # reminder.deliver_at = Some(store.now() + Duration::from_secs(3_600));
/// # store.commit(reminder);
/// let admin = outbox.admin(store);
/// // The id is what `enqueue` returned.
/// admin.cancel_delayed(message_id).await?;
/// assert!(matches!(admin.cancel_delayed(message_id).await, Err(AdminError::NotDelayed { .. })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Admin {
    outbox: Outbox,
    store: Arc<dyn Store>,
    /// The longest lease duration of any relay.
    lease_duration: Duration,
    /// Who acts, and why.
    actor: Option<Arc<str>>,
    reason: Option<Arc<str>>,
    /// Whether changes are refused that cannot be recorded, whatever the outbox says.
    is_audit_required: bool,
    /// Whether the log says already that nothing is recorded.
    is_audit_missing: Arc<AtomicBool>,
}

impl Outbox {
    /// The handle that manages messages, through a store like that of a relay.
    ///
    /// For services, jobs and tools alike: a pool of one connection is enough. The outbox may leave out topics, unless messages are
    /// requeued to a topic that has since become ordered, or stopped being ordered.
    pub fn admin(&self, store: impl OutboxStore) -> Admin {
        let lease_duration = Limits::default().lease_duration;
        Admin {
            outbox: self.clone(),
            store: shared(store, self.tables()),
            lease_duration,
            actor: None,
            reason: None,
            is_audit_required: false,
            is_audit_missing: Arc::default(),
        }
    }
}

impl Admin {
    /// Cancels a delayed message that is not sent yet. Once cancelled, no relay sends it.
    ///
    /// If a relay claims it at the same time, one of the two wins: the message is cancelled and not sent, or the call returns
    /// [`AlreadyClaimed`](AdminError::AlreadyClaimed) and the message is sent. A message that became due while no relay could send
    /// it, as in an outage, can still be cancelled. It may have been sent before only if a relay crashed during a claim.
    ///
    /// # Errors
    /// [`NotDelayed`](AdminError::NotDelayed), [`AlreadyClaimed`](AdminError::AlreadyClaimed), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not be cancelled. Call again.
    pub async fn cancel_delayed(&self, message_id: MessageId) -> Result<(), AdminError> {
        let (store, record) = (self.admin_store()?, self.record_one("cancel_delayed", message_id).await?);
        let outcome = store.cancel_delayed(message_id, record.as_ref()).await?;
        note_cancel(outcome, message_id, AdminError::NotDelayed { message_id })
    }

    /// The longest [`lease_duration`](crate::Limits::lease_duration) of the relays, if it is not the default. A relay may hold any
    /// message that is due within it.
    #[must_use]
    pub fn lease_duration(mut self, lease: Duration) -> Self {
        self.lease_duration = lease;
        self
    }

    /// Sends a message now that waits for its delivery time or its next attempt. The delivery time of a delayed message becomes the
    /// present, also in its header.
    ///
    /// A message that would be tried within a lease (30 s) anyway is left as it is ([`SendNowOutcome::Soon`]): a relay may hold it,
    /// and taking it would send it twice. Messages of ordered topics are not found: the lane's owner retries the first message of a
    /// key by itself, and every key at once when the topic was [paused](Self::pause) and is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`NotWaiting`](AdminError::NotWaiting), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not be due. Call again.
    pub async fn send_now(&self, message_id: MessageId) -> Result<SendNowOutcome, AdminError> {
        let record = self.record_one("send_now", message_id).await?;
        self.send_now_recorded(message_id, record.as_ref()).await
    }

    async fn send_now_recorded(
        &self,
        message_id: MessageId,
        record: Option<&AuditRecord>,
    ) -> Result<SendNowOutcome, AdminError> {
        let outcome = self.admin_store()?.send_now(message_id, self.lease_duration, record).await?;
        if outcome == Some(SendNowOutcome::Due) {
            self.wake();
        }
        outcome.ok_or(AdminError::NotWaiting { message_id })
    }

    /// Wakes the relay of this process, if there is one. The others poll within their poll interval.
    fn wake(&self) {
        self.outbox.link().wake();
    }

    fn admin_store(&self) -> Result<&dyn AdminStore, AdminError> {
        self.store.admin().ok_or(AdminError::Unsupported)
    }
}

/// Counts a message that was cancelled. `not_found` is the error where there was none.
fn note_cancel(outcome: CancelOutcome, message_id: MessageId, not_found: AdminError) -> Result<(), AdminError> {
    match outcome {
        CancelOutcome::Cancelled { topic } => {
            ::metrics::counter!(metrics::CANCELLED, "topic" => topic).increment(1);
            Ok(())
        }
        CancelOutcome::AlreadyClaimed => Err(AdminError::AlreadyClaimed { message_id }),
        CancelOutcome::NotFound => Err(not_found),
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outbox, store, actor, .. } = self;
        f.debug_struct("Admin")
            .field("outbox", outbox)
            .field("store", store)
            .field("actor", actor)
            .finish_non_exhaustive()
    }
}
