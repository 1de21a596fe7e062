use tokio::runtime::{Builder, Runtime};

use super::Admin;

/// An [`Admin`] for threads that run no async tasks. Made by [`Admin::blocking`].
///
/// # Panics
/// [`run`](Self::run) panics on a thread that runs async tasks, and so does dropping it. Use [`Admin`] itself there.
///
/// ```
/// use diesel_outbox::admin::AdminError;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::{MessageId, Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("reminders")).build()?;
/// let admin = outbox.admin(MemoryStore::new()).blocking()?;
/// let message_id = MessageId::new();
/// let cancelled = admin.run(async |admin| admin.cancel_delayed(message_id).await);
/// assert!(matches!(cancelled, Err(AdminError::NotDelayed { .. })));
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
    /// The operating system could not provide a runtime.
    pub fn blocking(&self) -> std::io::Result<BlockingAdmin> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(BlockingAdmin { admin: self.clone(), runtime })
    }
}

impl BlockingAdmin {
    /// Runs `task`, which may make one or several calls on the handle, and blocks until it is done.
    pub fn run<T>(&self, task: impl AsyncFnOnce(&Admin) -> T) -> T {
        self.runtime.block_on(task(&self.admin))
    }
}
