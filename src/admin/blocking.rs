use tokio::runtime::{Builder, Runtime};

use super::{Admin, AdminError};
use crate::message::MessageId;

/// An [`Admin`] for threads that run no async tasks. Made by [`Admin::blocking`].
///
/// Every method is that of [`Admin`] and blocks until it is done.
///
/// # Panics
/// Every method panics on a thread that runs async tasks: use [`Admin`] itself there.
///
/// ```
/// use diesel_outbox::admin::AdminError;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::{MessageId, Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("reminders")).build()?;
/// let admin = outbox.admin(MemoryStore::new()).blocking()?;
/// assert!(matches!(admin.cancel(MessageId::new()), Err(AdminError::NotDelayed { .. })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlockingAdmin {
    admin: Admin,
    runtime: Runtime,
}

impl Admin {
    /// The same handle for threads that run no async tasks.
    ///
    /// # Errors
    /// The system gave no runtime.
    pub fn blocking(&self) -> std::io::Result<BlockingAdmin> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(BlockingAdmin { admin: self.clone(), runtime })
    }
}

impl BlockingAdmin {
    /// As [`Admin::cancel`].
    ///
    /// # Errors
    /// As [`Admin::cancel`].
    pub fn cancel(&self, message_id: MessageId) -> Result<(), AdminError> {
        self.runtime.block_on(self.admin.cancel(message_id))
    }
}
