//! Messages that are moved back to the live table, and their lanes.

use std::sync::Arc;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::lane::lane_column;
use crate::message::MessageId;

/// What determines the lane of a stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageKey {
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its key: what it is about.
    pub key: Option<String>,
    /// The lane that it was in, out of as many as the topic had then.
    pub lane: Option<u16>,
}

/// A stored message that is to be moved back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeue {
    /// Its message id.
    pub message_id: MessageId,
    /// The lane to move it to; none on an unordered topic.
    pub lane: Option<u16>,
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
impl Requeue {
    pub(crate) fn lane_column(&self) -> i32 {
        lane_column(self.lane)
    }

    /// Sorted by message id, without duplicates: rows are locked in that order, and a duplicate would be written twice.
    pub(crate) fn sorted_unique(requeues: &[Self]) -> Vec<Self> {
        let mut requeues = requeues.to_vec();
        requeues.sort_unstable_by_key(|requeue| requeue.message_id);
        requeues.dedup_by_key(|requeue| requeue.message_id);
        requeues
    }
}
