use std::fmt;
use std::sync::Arc;

use super::fence::Fence;
use super::state::{Inner, Sent, SentInLane};
use crate::transport::{FencedLane, FencedMessage, LaneName};

/// A fenced lane of the in-process broker.
pub(super) struct MemoryLane {
    inner: Arc<Inner>,
    fence: Fence,
}

impl MemoryLane {
    pub(super) fn new(inner: &Arc<Inner>, lane: LaneName) -> Self {
        let number = {
            let mut state = inner.state();
            let number = state.fences.entry(lane.clone()).or_default();
            *number += 1;
            *number
        };
        Self { inner: Arc::clone(inner), fence: Fence::new(lane, number) }
    }
}

impl FencedLane for MemoryLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        for FencedMessage { envelope, sender, sequence, row } in messages {
            let lane = Some(SentInLane { fence: self.fence.clone(), sequence, row });
            Inner::take(&self.inner, Sent { envelope, sender, lane });
        }
    }

    fn is_open(&self) -> bool {
        self.fence.is_open()
    }
}

impl fmt::Debug for MemoryLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLane").field(&self.fence).finish()
    }
}
