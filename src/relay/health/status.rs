use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::Serialize;

use super::breaker::BreakerState;
use super::counters::Totals;
use crate::clock::BootInstant;
use crate::lane::NodeId;
use crate::relay::engine::Engine;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;
use crate::relay::lanes::topic::TopicLanes;
use crate::relay::liveness::Life;
use crate::serialize::seconds;
use crate::store::LaneState;
use crate::transport::FailureClass;

/// The state of a relay at one moment.
///
/// Serializable, for a page or an endpoint of the application; durations are seconds there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RelayStatus {
    /// Whether the relay runs. If it does not, all other fields are the last known ones.
    pub state: RelayState,
    /// Tasks that panic again and again, or are stuck, by their names in `outbox_task_panicked_total`.
    pub failing_tasks: Vec<&'static str>,
    /// The state of the transport; with several transports, of the one in the worst state.
    pub transport: TransportStatus,
    /// Each transport, in the order in which they were configured.
    pub transports: Vec<NamedTransportStatus>,
    /// The database, as of the last poll.
    pub store: StoreStatus,
    /// Rows handed over and not yet confirmed.
    pub queued: usize,
    /// Messages sent and not yet settled.
    pub in_flight: usize,
    /// Messages that the broker has acknowledged since the relay started, for a rate between two statuses.
    pub delivered: u64,
    /// Sends that have failed since the relay started.
    pub failed: u64,
    /// Topics that the broker refuses.
    pub refused_topics: Vec<Arc<str>>,
    /// Topics that somebody has paused, as of the last poll.
    pub paused_topics: Vec<Arc<str>>,
    /// The name of this relay as an owner of lanes.
    pub node: NodeId,
    /// Ordered topics whose lanes this relay leaves to other nodes for now, because its broker or database fails.
    pub asleep_topics: Vec<Arc<str>>,
    /// All lanes of its ordered topics, as of the last read.
    pub lanes: Vec<LaneStatus>,
}

/// Whether a relay runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RelayState {
    /// It runs.
    Running,
    /// Its tasks have not been polled for some time: the runtime is blocked or not driven.
    Stalled {
        /// For how long.
        #[serde(rename = "seconds", serialize_with = "seconds")]
        since: Duration,
    },
    /// It sends and settles what is left.
    ShuttingDown,
    /// It was shut down, or dropped.
    Ended,
    /// The tokio runtime that it was started on has ended, and its tasks with it. Nothing is sent any more. Start the relay on a
    /// runtime that lives as long as the process.
    RuntimeGone,
}

impl RelayState {
    /// What is wrong.
    pub(in crate::relay) fn problem(&self) -> Option<String> {
        match self {
            Self::Running => None,
            Self::Stalled { since } => Some(format!(
                "the relay's tasks have not run for {} s: its tokio runtime is blocked or not driven",
                since.as_secs()
            )),
            Self::ShuttingDown => Some("the relay is shutting down".to_owned()),
            Self::Ended => Some("the relay has ended".to_owned()),
            Self::RuntimeGone => Some(
                "the tokio runtime of the relay has ended: start the relay on one that lives as long as the process"
                    .to_owned(),
            ),
        }
    }
}

/// Who owns a lane of an ordered topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LaneStatus {
    /// The topic.
    pub topic: Arc<str>,
    /// The lane's number.
    pub lane: u16,
    /// Its owner; `None` if any node may take it.
    pub owner: Option<NodeId>,
    /// How many nodes share the topic's lanes.
    pub nodes: usize,
}

impl RelayStatus {
    /// The transport of this name.
    pub fn transport_named(&self, name: &str) -> Option<&NamedTransportStatus> {
        self.transports.iter().find(|transport| &*transport.name == name)
    }
}

/// One of a relay's transports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NamedTransportStatus {
    /// Its name; `default` if it was configured without one.
    pub name: Arc<str>,
    /// Whether it is up.
    pub status: TransportStatus,
    /// Rows handed over for it and not yet confirmed.
    pub queued: usize,
    /// Messages sent to it and not yet settled.
    pub in_flight: usize,
}

impl NamedTransportStatus {
    /// What is wrong with it.
    pub(in crate::relay) fn problem(&self) -> Option<String> {
        match &self.status {
            TransportStatus::Up | TransportStatus::Probing => None,
            TransportStatus::Down { error, since, .. } => {
                Some(format!("the transport {:?} has been down for {} s: {error}", self.name, since.as_secs()))
            }
        }
    }
}

/// The state of a transport, as its breaker knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TransportStatus {
    /// The broker answers.
    Up,
    /// The broker answered a probe. It gets one message at a time until it acknowledges one.
    Probing,
    /// The broker is down, and nothing is claimed.
    Down {
        /// What is wrong with it.
        class: FailureClass,
        /// The last error of a message or probe, without secrets.
        error: String,
        /// For how long.
        #[serde(rename = "seconds", serialize_with = "seconds")]
        since: Duration,
    },
}

/// The database, as of the last poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreStatus {
    /// It answered, if only that the table is locked.
    Up,
    /// It did not answer. The relay goes on polling, and sends what was committed once it answers again.
    Down {
        /// The error of the last poll.
        error: String,
        /// Since the first poll that failed.
        #[serde(rename = "seconds", serialize_with = "seconds")]
        since: Duration,
    },
}

pub(in crate::relay) fn snapshot(engines: &Engines) -> RelayStatus {
    let now = engines.clock.now();
    let transports: Vec<_> = engines.all.iter().map(|engine| transport_status(engine, now)).collect();
    let worst = transports.iter().map(|transport| &transport.status).max_by_key(|status| severity(status));
    let refused = engines.topics().filter(|topic| topic.is_refused());
    let paused = engines.topics().filter(|topic| topic.is_paused());
    let ordered = engines.all.iter().flat_map(|engine| engine.lanes.iter());
    let asleep = ordered.filter(|lanes| lanes.asleep_until().is_some());
    RelayStatus {
        state: state(engines, now),
        failing_tasks: failing_tasks(engines, now),
        transport: worst.cloned().unwrap_or(TransportStatus::Up),
        transports,
        store: match engines.store_health.failing() {
            None => StoreStatus::Up,
            Some((since, error)) => StoreStatus::Down { error, since: since.until(now) },
        },
        queued: engines.queued(),
        in_flight: engines.in_flight(),
        delivered: total(engines, |totals| &totals.delivered),
        failed: total(engines, |totals| &totals.failed),
        refused_topics: refused.map(|topic| topic.name()).collect(),
        paused_topics: paused.map(|topic| topic.name()).collect(),
        node: engines.node,
        asleep_topics: asleep.map(|lanes| lanes.name()).collect(),
        lanes: engines
            .all
            .iter()
            .flat_map(|engine| engine.lanes.iter())
            .flat_map(|lanes| lane_statuses(lanes))
            .collect(),
    }
}

fn total(engines: &Engines, of: impl Fn(&Totals) -> &AtomicU64) -> u64 {
    engines.topics().map(|topic| of(&topic.counters.totals).load(Relaxed)).sum()
}

fn state(engines: &Engines, now: BootInstant) -> RelayState {
    match engines.liveness.at(now) {
        Life::RuntimeGone => RelayState::RuntimeGone,
        _ if engines.stop.has_reached(Stage::Ending) => RelayState::Ended,
        Life::Stalled(since) => RelayState::Stalled { since: since.until(now) },
        Life::Runs if engines.stop.has_reached(Stage::Draining) => RelayState::ShuttingDown,
        Life::Runs => RelayState::Running,
    }
}

/// While the relay drains, its poller has ended.
fn failing_tasks(engines: &Engines, now: BootInstant) -> Vec<&'static str> {
    match engines.stop.has_reached(Stage::Draining) {
        true => Vec::new(),
        false => engines.task_health.failing(now, engines.limits.poll_interval),
    }
}

fn lane_statuses(lanes: &TopicLanes) -> Vec<LaneStatus> {
    let view = lanes.view();
    let nodes = view.nodes.len();
    let status = |lane: LaneState| LaneStatus {
        topic: lanes.name(),
        lane: lane.lane,
        owner: lane.owner.filter(|_| !lane.expires_in.is_zero()),
        nodes,
    };
    view.lanes.into_iter().map(status).collect()
}

fn transport_status(engine: &Engine, now: BootInstant) -> NamedTransportStatus {
    NamedTransportStatus {
        name: Arc::clone(&engine.name),
        status: match engine.breaker.state() {
            BreakerState::Closed => TransportStatus::Up,
            BreakerState::HalfOpen | BreakerState::Trial { .. } => TransportStatus::Probing,
            BreakerState::Open { class, since } => {
                TransportStatus::Down { class, error: engine.breaker.last_error(), since: since.until(now) }
            }
        },
        queued: engine.queue.len(),
        in_flight: engine.ledger.len(),
    }
}

/// A longer outage is worse.
fn severity(status: &TransportStatus) -> (u8, Duration) {
    match status {
        TransportStatus::Up => (0, Duration::ZERO),
        TransportStatus::Probing => (1, Duration::ZERO),
        TransportStatus::Down { since, .. } => (2, *since),
    }
}
