//! Who wakes whom. A wake-up carries no data: whoever wakes looks for itself, so a lost or doubled one does no harm.

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// The scout should look what is due.
    pub(crate) scout: Notify,
    /// Claim workers may find a due topic.
    pub(crate) sweepers: Notify,
}
