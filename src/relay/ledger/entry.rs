//! What is known of one row in this process's ledger.

use std::sync::Arc;
use std::time::Duration;

use super::claim_outcomes::ClaimOutcomes;
use crate::clock::BootInstant;
use crate::relay::path::Path;
use crate::relay::topics::TopicState;

/// A row in this process's ledger. `L` describes its lane, if it has one.
#[derive(Debug, Clone)]
pub(crate) struct Entry<L> {
    pub(crate) topic: Arc<TopicState>,
    pub(crate) holder: Holder<L>,
    pub(crate) progress: Progress,
    pub(crate) path: Path,
    /// Failures before this send.
    pub(crate) failures: u32,
    /// The number of this attempt.
    pub(crate) attempt: u32,
    /// The message's kind, if there are dead-letter callbacks.
    pub(crate) kind: Option<Box<str>>,
    pub(crate) bytes: usize,
    /// The end of COMMIT, if the hook saw it.
    pub(crate) committed_at: Option<BootInstant>,
    /// How long it had waited since its enqueue, or since it was due, when it was sent. By the database's clock; `None` if that
    /// is not known yet.
    pub(crate) waited: Option<Duration>,
    /// When it was handed to the transport.
    pub(crate) sent_at: BootInstant,
    /// When its answer was found to be overdue.
    pub(crate) overdue_since: Option<BootInstant>,
    /// Whether it was sent by itself: nothing else of its topic was in flight, or the transport sends each message alone.
    pub(crate) alone: bool,
}

impl<L> Entry<L> {
    /// Whether the hook handed it over. Otherwise the sweeper claimed it, or the lane reader read it.
    pub(crate) fn is_handed_over(&self) -> bool {
        matches!(self.path, Path::Inline | Path::Confirmed)
    }
}

/// Who holds a row, and so takes its outcome.
#[derive(Debug, Clone)]
pub(crate) enum Holder<L> {
    /// An open claim.
    Claim(Arc<ClaimOutcomes>),
    /// A lease of this process: the settler takes the outcome.
    Lease(Lease),
    /// The lane of an ordered topic: the settler takes the outcome and informs the lane.
    Lane(L),
    /// Nobody: the lease or the claim was lost. Only a success can still be settled.
    Lost,
}

/// A lease of this process on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) epoch: i32,
    pub(crate) began_at: BootInstant,
    pub(crate) ends_at: BootInstant,
}

impl Lease {
    /// Whether less than a third of the lease is left, so that it is time to extend.
    pub(crate) fn is_near_its_end(&self, now: BootInstant) -> bool {
        now.until(self.ends_at) < self.began_at.until(self.ends_at) / 3
    }
}

/// How far a row has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    InFlight,
    /// Acknowledged, and not yet settled.
    Delivered,
    /// Answered otherwise, and the failure is not yet written.
    Failed,
}
