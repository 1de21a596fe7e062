use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::topic::TopicLanes;
use crate::lane::NodeId;
use crate::relay::topics::Topics;

/// The ordered topics of a relay.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// The name of this relay among those that share lanes.
    pub(crate) node: NodeId,
    topics: Vec<Arc<TopicLanes>>,
    /// How many topics have handed over all of their lanes.
    released: AtomicUsize,
    released_notify: Notify,
}

impl Lanes {
    pub(crate) fn new(node: NodeId, topics: &Topics) -> Self {
        let ordered = topics.iter().filter(|topic| topic.config.lane_count().is_some());
        let topics = ordered.map(|topic| Arc::new(TopicLanes::new(Arc::clone(topic)))).collect();
        Self { node, topics, released: AtomicUsize::new(0), released_notify: Notify::new() }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<TopicLanes>> {
        self.topics.iter()
    }

    pub(crate) fn get(&self, topic: &str) -> Option<&Arc<TopicLanes>> {
        self.topics.iter().find(|lanes| lanes.topic.config.name() == topic)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.topics.iter().all(|lanes| lanes.topic.is_paused() || lanes.is_idle())
    }

    /// Wakes all lane tasks: the broker is back, or something else concerns all of them.
    pub(crate) fn wake(&self) {
        self.topics.iter().for_each(|lanes| lanes.reader_wakeup.notify_one());
    }

    /// A topic has handed over all of its lanes.
    pub(crate) fn note_released(&self) {
        self.released.fetch_add(1, Ordering::AcqRel);
        self.released_notify.notify_waiters();
    }

    /// Waits until every lane is handed over. Cancel safe.
    pub(crate) async fn all_released(&self) {
        loop {
            let released_notify = self.released_notify.notified();
            if self.released.load(Ordering::Acquire) >= self.topics.len() {
                return;
            }
            released_notify.await;
        }
    }
}
