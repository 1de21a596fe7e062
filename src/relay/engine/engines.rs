//! The engines of a relay, one per transport, and what they share.
//!
//! Each transport has its own queue, ledger, breaker and workers, so one that waits delays no other.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::Engine;
use super::stop::{Stage, Stop};
use super::task_health::TaskHealth;
use super::wakeups::Wakeups;
use crate::clock::{BootInstant, Clock};
use crate::lane::NodeId;
use crate::limits::Limits;
use crate::relay::api::flush::FlushOutcome;
use crate::relay::dead_letter_callbacks::DeadLetterCallbacks;
use crate::relay::direct::queue::ConnectedRelay;
use crate::relay::direct::queue::InlineRow;
use crate::relay::health::counters::BacklogGauges;
use crate::relay::health::database::StoreHealth;
use crate::relay::health::database_clock::DatabaseClock;
use crate::relay::lanes::topic::TopicLanes;
use crate::relay::liveness::{Life, Liveness};
use crate::relay::topics::TopicState;
use crate::store::Store;

#[derive(Debug)]
pub(crate) struct Engines {
    /// The name of this relay among those that share lanes.
    pub(crate) node: NodeId,
    pub(crate) all: Vec<Arc<Engine>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The configured limits; each engine has its share of them.
    pub(crate) limits: Limits,
    pub(crate) stop: Arc<Stop>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) dead_letter_callbacks: Arc<DeadLetterCallbacks>,
    pub(crate) store_health: StoreHealth,
    pub(crate) database_clock: Arc<DatabaseClock>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) task_health: Arc<TaskHealth>,
    pub(crate) backlog_gauges: BacklogGauges,
    /// For how many days the audit is kept.
    pub(crate) audit_days: Option<u32>,
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

    /// Whether the store can notify lane owners in other processes.
    pub(crate) fn has_notices(&self) -> bool {
        self.store.notices().is_some()
    }

    /// Whether no task is left that sends or settles messages.
    fn has_ended(&self) -> bool {
        self.stop.has_reached(Stage::Ending) || self.liveness.at(self.clock.now()) == Life::RuntimeGone
    }

    /// Rows handed over and not yet taken.
    pub(crate) fn queued(&self) -> usize {
        self.all.iter().map(|engine| engine.queue.len()).sum()
    }

    /// Messages sent and not yet settled.
    pub(crate) fn in_flight(&self) -> usize {
        self.all.iter().map(|engine| engine.ledger.len()).sum()
    }
}

#[async_trait]
impl ConnectedRelay for Engines {
    async fn flush(&self, within: Duration) -> FlushOutcome {
        if self.has_ended() {
            return FlushOutcome::NoRelay;
        }
        let flushed = join_all(self.all.iter().map(|engine| engine.flush(within))).await;
        match flushed.into_iter().all(|flushed| flushed) {
            true => FlushOutcome::Settled,
            false => FlushOutcome::TimedOut,
        }
    }

    fn committing_to_lane(&self, topic: &str, lane: u16) {
        if let Some(lanes) = self.lanes_of(topic) {
            lanes.announced(lane);
        }
    }

    fn committed_to_lane(&self, topic: &str, lane: u16, id: Option<i64>, inline: Option<Box<InlineRow>>) {
        let Some(lanes) = self.lanes_of(topic) else { return };
        lanes.committed(lane, id, self.clock.now(), inline);
        if self.has_notices() {
            lanes.note_unnotified(lane, id);
            self.wakeups.notifier.notify_one();
        }
    }

    fn owns_lane(&self, topic: &str, lane: u16) -> bool {
        self.lanes_of(topic).is_some_and(|lanes| lanes.owns(lane))
    }

    fn committed_delayed(&self, due_at: BootInstant) {
        self.wakeups.note_due_at(due_at);
    }

    fn poll_now(&self) {
        self.wakeups.poller.notify_one();
        self.all.iter().flat_map(|engine| engine.lanes.iter()).for_each(|lanes| lanes.scan_again());
    }
}
