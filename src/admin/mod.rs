//! What people and jobs do to messages beside the running relays: one handle, async and blocking.

mod blocking;
mod error;

pub use blocking::BlockingAdmin;
pub use error::AdminError;

use std::fmt;
use std::sync::Arc;

use crate::message::MessageId;
use crate::metrics;
use crate::outbox::Outbox;
use crate::store::{AdminStore, Cancellation, Store};

/// Looks after the messages of an outbox: cancels delayed ones. Made by [`Outbox::admin`].
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
}

impl Outbox {
    /// The handle to look after messages, through a store like that of a relay.
    ///
    /// For services, jobs and tools alike: the store may have a pool of one connection.
    pub fn admin(&self, mut store: impl Store) -> Admin {
        store.use_tables(self.tables());
        Admin { outbox: self.clone(), store: Arc::new(store) }
    }
}

impl Admin {
    /// Takes back a delayed message that is not sent yet. Once it is cancelled, no relay sends it any more.
    ///
    /// Beside running relays one of the two wins: the message is cancelled and not sent, or it is
    /// [`AlreadyTaken`](AdminError::AlreadyTaken) and goes its way. A message whose time has come while no relay could send
    /// it, as in an outage, can still be cancelled; only where the claim of a relay ended by a crash may it have been sent
    /// before.
    ///
    /// # Errors
    /// [`NotDelayed`](AdminError::NotDelayed), [`AlreadyTaken`](AdminError::AlreadyTaken), or what the database says.
    ///
    /// # Cancel safety
    /// Dropped, the future may have cancelled the message or not; ask again.
    pub async fn cancel(&self, message_id: MessageId) -> Result<(), AdminError> {
        match self.port()?.cancel(message_id).await? {
            Cancellation::Cancelled { topic } => {
                ::metrics::counter!(metrics::CANCELLED, "topic" => topic).increment(1);
                Ok(())
            }
            Cancellation::Taken => Err(AdminError::AlreadyTaken { message_id }),
            Cancellation::NotThere => Err(AdminError::NotDelayed { message_id }),
        }
    }

    fn port(&self) -> Result<&dyn AdminStore, AdminError> {
        self.store.admin().ok_or(AdminError::Unsupported)
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("outbox", &self.outbox).field("store", &self.store).finish()
    }
}
