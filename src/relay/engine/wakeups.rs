//! Who wakes whom. A wake-up carries no data: the woken task reads the state itself, so a lost or doubled wake-up does
//! no harm.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::BootInstant;

#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    /// The poller should poll now.
    pub(crate) poller: Notify,
    /// Claim workers may find a due topic.
    pub(crate) sweepers: Notify,
    /// The notifier may have commits to announce.
    pub(crate) notifier: Notify,
    /// When the poller polls next; `None` while it polls.
    next_poll_at: Mutex<Option<BootInstant>>,
}

impl Wakeups {
    /// The poller begins a poll, which may miss what is committed from now on.
    pub(crate) fn begin_poll(&self) {
        *self.next_poll() = None;
    }

    /// The poller polls again at that time.
    pub(crate) fn set_next_poll(&self, next: BootInstant) {
        *self.next_poll() = Some(next);
    }

    /// A row is due at `due_at` that the poller may not know of. Wakes it only if its next poll would be too late: a
    /// million messages for next month cause no wake-up.
    pub(crate) fn note_due_at(&self, due_at: BootInstant) {
        if self.next_poll().is_none_or(|next| due_at < next) {
            self.poller.notify_one();
        }
    }

    fn next_poll(&self) -> MutexGuard<'_, Option<BootInstant>> {
        self.next_poll_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
