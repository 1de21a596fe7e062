//! Who wakes whom. A wake-up carries no data: whoever wakes looks for itself, so a lost or doubled one does no harm.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::BootInstant;

#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    /// The poller should look what is due.
    pub(crate) poller: Notify,
    /// Claim workers may find a due topic.
    pub(crate) sweepers: Notify,
    /// The notifier may have something to tell.
    pub(crate) notifier: Notify,
    /// When the poller looks next by itself; `None` while it polls.
    next_poll_at: Mutex<Option<BootInstant>>,
}

impl Wakeups {
    /// The poller begins to look: what is committed from now on it may not see.
    pub(crate) fn begin_poll(&self) {
        *self.next_poll() = None;
    }

    /// The poller looks again at that time.
    pub(crate) fn set_next_poll(&self, next: BootInstant) {
        *self.next_poll() = Some(next);
    }

    /// Something is due at `due_at` that the poller may not know of. It is left asleep where it looks in time anyway: a
    /// million messages for the next month wake nobody.
    pub(crate) fn note_due_at(&self, due_at: BootInstant) {
        if self.next_poll().is_none_or(|next| due_at < next) {
            self.poller.notify_one();
        }
    }

    fn next_poll(&self) -> MutexGuard<'_, Option<BootInstant>> {
        self.next_poll_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
