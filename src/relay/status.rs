use std::sync::Arc;
use std::time::Duration;

use super::breaker::BreakerState;
use super::engine::Engine;
use crate::transport::FailureClass;

/// How a relay does, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStatus {
    /// The breaker's view of the transport.
    pub transport: TransportStatus,
    /// The database, as the last look at it found it.
    pub store: StoreStatus,
    /// Rows handed over and not yet confirmed.
    pub queued: usize,
    /// Messages sent and not yet settled.
    pub in_flight: usize,
    /// Topics that the broker refuses.
    pub refused_topics: Vec<Arc<str>>,
}

/// The breaker's view of the transport.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportStatus {
    /// It answers.
    Up,
    /// It answered a probe and gets one message at a time until one is acknowledged.
    Trying,
    /// It is down: nothing is claimed.
    Down {
        /// What is wrong with it.
        class: FailureClass,
        /// For how long.
        since: Duration,
    },
}

/// The database, as the last look at it found it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreStatus {
    /// It answered.
    Up,
    /// It did not: looks go on, and what was committed is sent when it answers again.
    Down {
        /// What the last look met.
        error: String,
        /// Since the first look that failed.
        since: Duration,
    },
}

pub(super) fn of(engine: &Engine) -> RelayStatus {
    let now = engine.clock.now();
    let refused = engine.topics.iter().filter(|topic| topic.is_refused());
    RelayStatus {
        transport: match engine.breaker.state() {
            BreakerState::Closed => TransportStatus::Up,
            BreakerState::HalfOpen | BreakerState::Trial { .. } => TransportStatus::Trying,
            BreakerState::Open { class, since } => TransportStatus::Down { class, since: since.until(now) },
        },
        store: match engine.store_health.failing() {
            None => StoreStatus::Up,
            Some((since, error)) => StoreStatus::Down { error, since: since.until(now) },
        },
        queued: engine.queue.len(),
        in_flight: engine.ledger.len(),
        refused_topics: refused.map(|topic| topic.name()).collect(),
    }
}
