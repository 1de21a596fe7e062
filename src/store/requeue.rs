//! Messages that come back from where they were kept, and the lanes they come back to.

use std::sync::Arc;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::lane::lane_column;
use crate::message::MessageId;

/// What decides in which lane a kept message belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageKey {
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// What it is about.
    pub key: Option<String>,
    /// The lane that it was in: its key's, of as many as the topic had then.
    pub lane: Option<u16>,
}

/// A kept message that is to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeue {
    /// Its message id.
    pub message_id: MessageId,
    /// To which lane; to none on a topic without order.
    pub lane: Option<u16>,
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
impl Requeue {
    pub(crate) fn lane_column(&self) -> i32 {
        lane_column(self.lane)
    }

    /// By message id, each once: rows are locked in that order, and one that is named twice would be written twice.
    pub(crate) fn sorted_unique(requeues: &[Self]) -> Vec<Self> {
        let mut requeues = requeues.to_vec();
        requeues.sort_unstable_by_key(|requeue| requeue.message_id);
        requeues.dedup_by_key(|requeue| requeue.message_id);
        requeues
    }
}
