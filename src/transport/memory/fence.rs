use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::transport::{FailureClass, KeySequence, LaneName, Outcome, TransportError};

/// One fencing of a lane. Only the last one of a lane counts. A cheap handle.
#[derive(Debug, Clone)]
pub(super) struct Fence {
    lane: LaneName,
    number: u64,
    is_open: Arc<AtomicBool>,
}

impl Fence {
    /// The fencing of this number.
    pub(super) fn new(lane: LaneName, number: u64) -> Self {
        Self { lane, number, is_open: Arc::new(AtomicBool::new(true)) }
    }

    pub(super) fn lane(&self) -> &LaneName {
        &self.lane
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Why a message that arrives now is refused.
    pub(super) fn refuses(&self, sequence: &KeySequence, fences: &HashMap<LaneName, u64>) -> Option<TransportError> {
        if fences.get(&self.lane) != Some(&self.number) {
            return Some(TransportError::new(FailureClass::Fenced, FenceError::FencedByLater));
        }
        (!self.is_open() || sequence.has_failed())
            .then(|| TransportError::new(FailureClass::Aborted, FenceError::EarlierFailed))
    }

    /// An outage closes it, as for a real client that does not know what became of its messages.
    pub(super) fn observe(&self, outcome: &Outcome) {
        let ends = |class: FailureClass| class.is_outage() || class == FailureClass::Fenced;
        if matches!(outcome, Outcome::Failed(error) if ends(error.class())) {
            self.is_open.store(false, Ordering::Release);
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum FenceError {
    #[error("the lane was fenced again")]
    FencedByLater,
    #[error("an earlier message of its key failed")]
    EarlierFailed,
}
