use tokio::runtime::{Builder, Runtime};

use super::{Admin, AdminError, DeadPage, PausedTopic, PayloadText, RedrivePace, Retried};
use crate::message::{MessageId, OutboxMessage};
use crate::store::{DeadCount, DeadFilter, DeadLetter, DeadMark, Hastening};

/// An [`Admin`] for threads that run no async tasks. Made by [`Admin::blocking`].
///
/// Every method is that of [`Admin`] and blocks until it is done.
///
/// # Panics
/// Every method panics on a thread that runs async tasks, and so does dropping it: use [`Admin`] itself there.
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
    pub(super) admin: Admin,
    pub(super) runtime: Runtime,
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

    /// As [`Admin::send_now`].
    ///
    /// # Errors
    /// As [`Admin::send_now`].
    pub fn send_now(&self, message_id: MessageId) -> Result<Hastening, AdminError> {
        self.runtime.block_on(self.admin.send_now(message_id))
    }

    /// As [`Admin::retry_send`].
    ///
    /// # Errors
    /// As [`Admin::retry_send`].
    pub fn retry_send(&self, message_id: MessageId) -> Result<Retried, AdminError> {
        self.runtime.block_on(self.admin.retry_send(message_id))
    }

    /// As [`Admin::redrive_edited`].
    ///
    /// # Errors
    /// As [`Admin::redrive_edited`].
    pub fn redrive_edited<M: OutboxMessage + ?Sized>(
        &self,
        message_id: MessageId,
        edited: &M,
    ) -> Result<MessageId, AdminError> {
        self.runtime.block_on(self.admin.redrive_edited(message_id, edited))
    }

    /// As [`Admin::dead_letters`].
    ///
    /// # Errors
    /// As [`Admin::dead_letters`].
    pub fn dead_letters(
        &self,
        filter: &DeadFilter,
        after: Option<&DeadMark>,
        letters_max: usize,
    ) -> Result<DeadPage, AdminError> {
        self.runtime.block_on(self.admin.dead_letters(filter, after, letters_max))
    }

    /// As [`Admin::dead_letter`].
    ///
    /// # Errors
    /// As [`Admin::dead_letter`].
    pub fn dead_letter(&self, message_id: MessageId) -> Result<DeadLetter, AdminError> {
        self.runtime.block_on(self.admin.dead_letter(message_id))
    }

    /// As [`Admin::payload_text`].
    pub fn payload_text<'a>(&self, letter: &'a DeadLetter) -> PayloadText<'a> {
        self.admin.payload_text(letter)
    }

    /// As [`Admin::count_dead`].
    ///
    /// # Errors
    /// As [`Admin::count_dead`].
    pub fn count_dead(&self) -> Result<Vec<DeadCount>, AdminError> {
        self.runtime.block_on(self.admin.count_dead())
    }

    /// As [`Admin::redrive`].
    ///
    /// # Errors
    /// As [`Admin::redrive`].
    pub fn redrive(&self, message_id: MessageId) -> Result<(), AdminError> {
        self.runtime.block_on(self.admin.redrive(message_id))
    }

    /// As [`Admin::redrive_all`].
    ///
    /// # Errors
    /// As [`Admin::redrive_all`].
    pub fn redrive_all(
        &self,
        filter: &DeadFilter,
        pace: RedrivePace,
        progress: impl FnMut(usize) + Send,
    ) -> Result<usize, AdminError> {
        self.runtime.block_on(self.admin.redrive_all(filter, pace, progress))
    }

    /// As [`Admin::purge`].
    ///
    /// # Errors
    /// As [`Admin::purge`].
    pub fn purge(&self, message_id: MessageId) -> Result<(), AdminError> {
        self.runtime.block_on(self.admin.purge(message_id))
    }

    /// As [`Admin::purge_all`].
    ///
    /// # Errors
    /// As [`Admin::purge_all`].
    pub fn purge_all(&self, filter: &DeadFilter, progress: impl FnMut(usize) + Send) -> Result<usize, AdminError> {
        self.runtime.block_on(self.admin.purge_all(filter, progress))
    }

    /// As [`Admin::pause`].
    ///
    /// # Errors
    /// As [`Admin::pause`].
    pub fn pause(&self, topic: &str) -> Result<(), AdminError> {
        self.runtime.block_on(self.admin.pause(topic))
    }

    /// As [`Admin::resume`].
    ///
    /// # Errors
    /// As [`Admin::resume`].
    pub fn resume(&self, topic: &str) -> Result<(), AdminError> {
        self.runtime.block_on(self.admin.resume(topic))
    }

    /// As [`Admin::paused`].
    ///
    /// # Errors
    /// As [`Admin::paused`].
    pub fn paused(&self) -> Result<Vec<PausedTopic>, AdminError> {
        self.runtime.block_on(self.admin.paused())
    }
}
