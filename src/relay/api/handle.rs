//! A relay's handle, for everybody except its owner.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;

use super::flush::FlushOutcome;
use crate::relay::direct::queue::ConnectedRelay as _;
use crate::relay::engine::engines::Engines;
use crate::relay::health::backlog::{self, Backlog, BacklogError};
use crate::relay::health::status::{self, RelayState, RelayStatus, StoreStatus};

/// A handle of a relay, for the parts of an application that observe it: health checks, metrics, admin pages. From
/// [`Relay::handle`](crate::relay::Relay::handle).
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

    /// The relay's status; after its end, the last one. As [`Relay::status`](crate::relay::Relay::status).
    pub fn status(&self) -> RelayStatus {
        // In this order: a relay that ends in between has stored its last status.
        let running = self.shared.engines.upgrade().map(|engines| status::snapshot(&engines));
        let last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.or(running).unwrap_or_else(|| unreachable!("a relay stores its last status before it ends"))
    }

    /// The relay's health, for the liveness and readiness probes of an orchestrator. As [`Relay::health`](crate::relay::Relay::health).
    pub fn health(&self) -> RelayHealth {
        RelayHealth::of(&self.status())
    }

    /// As [`Relay::backlog`](crate::relay::Relay::backlog).
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

    /// As [`Relay::flush`](crate::relay::Relay::flush); [`FlushOutcome::NoRelay`] if the relay has ended.
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

/// The health of a relay, for the probes of an orchestrator. From [`Relay::health`](crate::relay::Relay::health) and [`RelayHandle::health`].
///
/// It is what the relay knows: no database and no broker is called for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RelayHealth {
    /// Whether the relay's tasks run. False if the runtime is blocked or has ended, if a task panics again and again or is stuck, and
    /// after the relay's end. Then restart the process.
    pub live: bool,
    /// Whether the relay is live and does not shut down. A database or broker that is down does not count: it is down for every
    /// process, and messages wait in the outbox.
    pub ready: bool,
    /// Whether its database or one of its brokers is down.
    pub degraded: bool,
    /// Every problem as a text, including those of brokers.
    pub problems: Vec<String>,
}

impl RelayHealth {
    pub(in crate::relay) fn of(status: &RelayStatus) -> Self {
        let is_running = matches!(status.state, RelayState::Running);
        let live = (is_running || matches!(status.state, RelayState::ShuttingDown)) && status.failing_tasks.is_empty();
        let down = problems_of_dependencies(status);
        let degraded = !down.is_empty();
        let failing = status.failing_tasks.iter().map(|task| {
            format!("the relay's task \"{task}\" panics again and again, or is stuck in a call; panics are in the log")
        });
        let problems = status.state.problem().into_iter().chain(failing).chain(down).collect();
        Self { live, ready: live && is_running, degraded, problems }
    }

    /// Whether it is ready and nothing is down: for a deployment that should not go on with a wrong address or password. As the
    /// readiness of a load balancer it takes every process out of service at once while the database is down.
    pub fn is_ready_strict(&self) -> bool {
        self.ready && !self.degraded
    }
}

fn problems_of_dependencies(status: &RelayStatus) -> Vec<String> {
    let database = match &status.store {
        StoreStatus::Up => None,
        StoreStatus::Down { error, since } => {
            Some(format!("the database has been down for {} s: {error}", since.as_secs()))
        }
    };
    database.into_iter().chain(status.transports.iter().filter_map(|transport| transport.problem())).collect()
}
