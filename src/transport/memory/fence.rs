use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::transport::{FailureClass, KeySequence, LaneName, Outcome, TransportError};

/// One fencing of a lane: of several, only the last counts. A cheap handle.
#[derive(Debug, Clone)]
pub(super) struct Fence {
    lane: LaneName,
    number: u64,
    is_open: Arc<AtomicBool>,
}

impl Fence {
    /// The `number`th of the lane.
    pub(super) fn new(lane: LaneName, number: u64) -> Self {
        Self { lane, number, is_open: Arc::new(AtomicBool::new(true)) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Why a message that arrives now is not taken.
    pub(super) fn refuses(&self, run: &KeySequence, fences: &HashMap<LaneName, u64>) -> Option<TransportError> {
        if fences.get(&self.lane) != Some(&self.number) {
            return Some(TransportError::new(FailureClass::Fenced, FenceError::FencedByLater));
        }
        (!self.is_open() || run.has_failed())
            .then(|| TransportError::new(FailureClass::Aborted, FenceError::EarlierFailed))
    }

    /// Ends with an outage, as a client does that does not know what became of what it sent.
    pub(super) fn observe(&self, outcome: &Outcome) {
        let ends = |class: FailureClass| class.is_outage() || class == FailureClass::Fenced;
        if matches!(outcome, Outcome::Failed(error) if ends(error.class())) {
            self.is_open.store(false, Ordering::Release);
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum FenceError {
    #[error("the lane was fenced anew")]
    FencedByLater,
    #[error("it comes behind one that failed")]
    EarlierFailed,
}
