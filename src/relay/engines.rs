//! The engines of a relay, one for each of its transports, and what they share.
//!
//! An engine for each and not one that knows several: queue, ledger, breaker and workers are then each transport's own,
//! so that nothing one of them waits for is in the way of another.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::engine::Engine;
use super::health::StoreHealth;
use super::lanes::topic::TopicLanes;
use super::meters::BacklogMeters;
use super::queue::Carried;
use super::queue::Flush;
use super::stop::Stop;
use super::teller::Teller;
use super::topics::TopicState;
use super::wakes::Wakes;
use crate::clock::{BootInstant, Clock};
use crate::lane::NodeId;
use crate::limits::Limits;
use crate::store::Store;

#[derive(Debug)]
pub(crate) struct Engines {
    /// What the relay is called among those that share lanes.
    pub(crate) node: NodeId,
    pub(crate) all: Vec<Arc<Engine>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// As they were given; each engine has its share of them.
    pub(crate) limits: Limits,
    pub(crate) stop: Arc<Stop>,
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) teller: Arc<Teller>,
    pub(crate) store_health: StoreHealth,
    pub(crate) backlog_meters: BacklogMeters,
}

impl Engines {
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<TopicState>> {
        self.all.iter().flat_map(|engine| engine.topics.iter())
    }

    /// The topics of all transports.
    pub(crate) fn topic_names(&self) -> Vec<Arc<str>> {
        self.topics().map(|topic| topic.name()).collect()
    }

    /// The lanes of an ordered topic.
    pub(crate) fn lanes_of(&self, topic: &str) -> Option<&Arc<TopicLanes>> {
        self.all.iter().find_map(|engine| engine.lanes.get(topic))
    }

    /// Whether owners of lanes in other processes can be told of commits.
    pub(crate) fn has_notices(&self) -> bool {
        self.store.notices().is_some()
    }

    /// Rows handed over and not yet looked at.
    pub(crate) fn queued(&self) -> usize {
        self.all.iter().map(|engine| engine.queue.len()).sum()
    }

    /// Messages sent and not yet settled.
    pub(crate) fn in_flight(&self) -> usize {
        self.all.iter().map(|engine| engine.ledger.len()).sum()
    }
}

#[async_trait]
impl Flush for Engines {
    async fn flush(&self, within: Duration) -> bool {
        join_all(self.all.iter().map(|engine| engine.flush(within))).await.into_iter().all(|flushed| flushed)
    }

    fn committing_to_lane(&self, topic: &str, lane: u16) {
        if let Some(lanes) = self.lanes_of(topic) {
            lanes.announced(lane);
        }
    }

    fn committed_to_lane(&self, topic: &str, lane: u16, id: Option<i64>, carried: Option<Box<Carried>>) {
        let Some(lanes) = self.lanes_of(topic) else { return };
        lanes.committed(lane, id, self.clock.now(), carried);
        if self.has_notices() {
            lanes.is_untold(lane, id);
            self.wakes.crier.notify_one();
        }
    }

    fn committed_for_later(&self, due_at: BootInstant) {
        self.wakes.is_due_at(due_at);
    }

    fn look_again(&self) {
        self.wakes.scout.notify_one();
        self.all.iter().flat_map(|engine| engine.lanes.iter()).for_each(|lanes| lanes.look_again());
    }
}
