//! Who wakes whom. A wake-up carries no data: whoever wakes looks for itself, so a lost or doubled one does no harm.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::BootInstant;

#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// The scout should look what is due.
    pub(crate) scout: Notify,
    /// Claim workers may find a due topic.
    pub(crate) sweepers: Notify,
    /// The crier may have something to tell.
    pub(crate) crier: Notify,
    /// When the scout looks next by itself; `None` while it is looking.
    next_look_at: Mutex<Option<BootInstant>>,
}

impl Wakes {
    /// The scout begins to look: what is committed from now on it may not see.
    pub(crate) fn looking(&self) {
        *self.next_look() = None;
    }

    /// The scout looks again at that time.
    pub(crate) fn looks_at(&self, next: BootInstant) {
        *self.next_look() = Some(next);
    }

    /// Something is due at `due_at` that the scout may not know of. It is left asleep where it looks in time anyway: a
    /// million messages for the next month wake nobody.
    pub(crate) fn is_due_at(&self, due_at: BootInstant) {
        if self.next_look().is_none_or(|next| due_at < next) {
            self.scout.notify_one();
        }
    }

    fn next_look(&self) -> MutexGuard<'_, Option<BootInstant>> {
        self.next_look_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
