//! A relay's handle, for everybody except its owner.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;

use super::direct::queue::RelayHandle as _;
use super::engine::engines::Engines;
use super::flush::FlushOutcome;
use super::health::backlog::{self, Backlog, BacklogError};
use super::health::status::{self, RelayState, RelayStatus, StoreStatus};

/// A handle of a relay, for the parts of an application that observe it: health checks, metrics, admin pages. From
/// [`Relay::handle`](super::Relay::handle).
///
/// It is cheap to clone. It neither keeps the relay alive nor ends it. After the relay's end, the status says so.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use diesel_outbox::relay::RelayState;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::transport::MemoryTransport;
/// use diesel_outbox::{Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let relay = outbox.relay().store(MemoryStore::new()).transport(MemoryTransport::new()).start().await?;
/// let handle = relay.handle();
/// assert!(handle.health().ready);
/// assert_eq!(handle.backlog().await?.due(), 0);
/// relay.shutdown(Duration::from_secs(10)).await;
/// assert_eq!(handle.status().state, RelayState::Ended);
/// assert!(!handle.health().live);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct RelayHandle {
    shared: Arc<Shared>,
}

/// The state that the handles of one relay share.
#[derive(Debug)]
pub(crate) struct Shared {
    engines: Weak<Engines>,
    /// The relay's status at its end.
    last: Mutex<Option<RelayStatus>>,
}

impl Shared {
    pub(crate) fn new(engines: &Arc<Engines>) -> Arc<Self> {
        Arc::new(Self { engines: Arc::downgrade(engines), last: Mutex::default() })
    }

    /// Keeps the last status when the relay ends.
    pub(crate) fn keep(&self, last: RelayStatus) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }
}

impl RelayHandle {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    /// The relay's status; after its end, the last one. As [`Relay::status`](super::Relay::status).
    pub fn status(&self) -> RelayStatus {
        // In this order: a relay that ends in between has stored its last status.
        let running = self.shared.engines.upgrade().map(|engines| status::snapshot(&engines));
        let last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.or(running).unwrap_or_else(|| unreachable!("a relay stores its last status before it ends"))
    }

    /// The relay's health, for the liveness and readiness probes of an orchestrator.
    pub fn health(&self) -> RelayHealth {
        RelayHealth::of(&self.status())
    }

    /// As [`Relay::backlog`](super::Relay::backlog).
    ///
    /// # Errors
    /// The database did not count the messages, or the relay has ended.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn backlog(&self) -> Result<Backlog, BacklogError> {
        let engines = self.engines().ok_or(BacklogError::Ended)?;
        backlog::count(&engines).await.map_err(BacklogError::Store)
    }

    /// As [`Relay::flush`](super::Relay::flush); [`FlushOutcome::NoRelay`] if the relay has ended.
    ///
    /// # Cancel safety
    /// Cancelling stops the waiting only.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        match self.engines() {
            Some(engines) => engines.flush(within).await,
            None => FlushOutcome::NoRelay,
        }
    }

    /// The engines, unless the relay has ended.
    fn engines(&self) -> Option<Arc<Engines>> {
        let has_ended = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        self.shared.engines.upgrade().filter(|_| !has_ended)
    }
}

/// The health of a relay. From [`RelayHandle::health`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RelayHealth {
    /// Whether the relay's tasks run. If they do not, restart the process.
    pub live: bool,
    /// Whether the relay runs and its database answers. A broker that is down does not count, because messages then wait in the
    /// outbox.
    pub ready: bool,
    /// Every problem as a text, including those of brokers.
    pub problems: Vec<String>,
}

impl RelayHealth {
    fn of(status: &RelayStatus) -> Self {
        let live = matches!(status.state, RelayState::Running | RelayState::ShuttingDown);
        let has_database = matches!(status.store, StoreStatus::Up);
        let ready = matches!(status.state, RelayState::Running) && has_database;
        let mut problems: Vec<String> = status.state.problem().into_iter().collect();
        if let StoreStatus::Down { error, since } = &status.store {
            problems.push(format!("the database has been down for {} s: {error}", since.as_secs()));
        }
        problems.extend(status.routes.iter().filter_map(|route| route.problem()));
        Self { live, ready, problems }
    }
}
