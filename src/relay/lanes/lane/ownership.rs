//! One time as the owner of a lane, told from another.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::OwnedLane;

/// From when a lane is taken until it is lost or handed over. The fence alone does not tell: a lane that was lost while the database
/// still called it this node's is taken again under the same one. What was read, asked of the broker or sent in the ownership before
/// says nothing of what has to come first in this one.
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
