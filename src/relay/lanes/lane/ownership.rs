//! One period of owning a lane.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::OwnedLane;

/// From taking a lane until it is lost or handed over. The fence alone does not identify it: a lane that was lost while
/// the database still assigned it to this node is taken again under the same fence. Rows read, fence requests and sends
/// of an earlier ownership say nothing about the order in this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneOwnership {
    pub(crate) held: OwnedLane,
    number: u64,
}

impl LaneOwnership {
    pub(crate) fn begin(held: OwnedLane) -> Self {
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        Self { held, number: BEGUN.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn lane(&self) -> u16 {
        self.held.lane
    }
}
