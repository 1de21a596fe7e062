//! What everybody but its owner may do with a relay.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;

use super::direct::queue::RelayHandle as _;
use super::engine::engines::Engines;
use super::flush::FlushOutcome;
use super::health::backlog::{self, Backlog, BacklogError};
use super::health::status::{self, RelayState, RelayStatus, StoreStatus};

/// A handle of a running relay, for the parts of an application that look at it: health checks, metrics, admin pages. From
/// [`Relay::handle`](super::Relay::handle).
///
/// Cheap to clone. It does not keep the relay alive, and cannot end it: once the relay has ended, the handle says so.
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

/// What the handles of one relay share.
#[derive(Debug)]
pub(crate) struct Shared {
    engines: Weak<Engines>,
    /// The status at its end.
    last: Mutex<Option<RelayStatus>>,
}

impl Shared {
    pub(crate) fn new(engines: &Arc<Engines>) -> Arc<Self> {
        Arc::new(Self { engines: Arc::downgrade(engines), last: Mutex::default() })
    }

    /// Keeps the last status, because the relay goes away.
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
        // In this order: a relay that goes in between has left its last status.
        let running = self.shared.engines.upgrade().map(|engines| status::snapshot(&engines));
        let last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.or(running).unwrap_or_else(|| unreachable!("a relay leaves its last status before it goes"))
    }

    /// Whether the process is to be restarted, and whether it can do its work: for the probes of an orchestrator.
    pub fn health(&self) -> RelayHealth {
        RelayHealth::of(&self.status())
    }

    /// As [`Relay::backlog`](super::Relay::backlog).
    ///
    /// # Errors
    /// The database could not be asked, or the relay has ended.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn backlog(&self) -> Result<Backlog, BacklogError> {
        let engines = self.engines().ok_or(BacklogError::Ended)?;
        backlog::count(&engines).await.map_err(BacklogError::Store)
    }

    /// As [`Relay::flush`](super::Relay::flush); [`FlushOutcome::NoRelay`] where the relay has ended.
    ///
    /// # Cancel safety
    /// Cancelling stops the waiting only.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        match self.engines() {
            Some(engines) => engines.flush(within).await,
            None => FlushOutcome::NoRelay,
        }
    }

    /// Of a relay that has not ended.
    fn engines(&self) -> Option<Arc<Engines>> {
        let has_ended = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        self.shared.engines.upgrade().filter(|_| !has_ended)
    }
}

/// What a relay means for its process. From [`RelayHandle::health`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RelayHealth {
    /// Whether the relay's tasks run. Where they do not, only a restart helps.
    pub live: bool,
    /// Whether the relay runs and its database answers. A broker that is down does not count: the outbox is there for that, and messages wait.
    pub ready: bool,
    /// What is wrong, also with brokers, for people.
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
