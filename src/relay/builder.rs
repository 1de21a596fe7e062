use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::breaker::Breaker;
use super::engine::Engine;
use super::health::StoreHealth;
use super::inbox::Inbox;
use super::ledger::Ledger;
use super::meters::BacklogMeters;
use super::panicked::RelayPanicked;
use super::queue::{Link, Queue};
use super::stop::Stop;
use super::supervised::supervised;
use super::topics::Topics;
use super::wakes::Wakes;
use super::{Relay, dispatcher, keeper, prober, scout, settler, sweeper};
use crate::clock::{Clock, SystemClock};
use crate::limits::Limits;
use crate::metrics;
use crate::naming::TableNames;
use crate::store::{SchemaProblem, Store, StoreError, StoreWarning};
use crate::topic::Topic;
use crate::transport::{Transport, TransportError};

/// Puts a relay together. Made by [`Outbox::relay`](crate::Outbox::relay).
#[derive(Debug)]
#[must_use = "a relay runs only after `start`"]
pub struct RelayBuilder {
    topics: Vec<Topic>,
    tables: TableNames,
    link: Arc<Link>,
    store: Option<Arc<dyn Store>>,
    transport: Option<Arc<dyn Transport>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl RelayBuilder {
    pub(crate) fn new(topics: Vec<Topic>, tables: TableNames, link: Arc<Link>) -> Self {
        Self {
            topics,
            tables,
            link,
            store: None,
            transport: None,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
        }
    }

    /// The database to relay from. Required. It is told where the tables are: where the outbox writes to.
    pub fn store(mut self, mut store: impl Store) -> Self {
        store.use_tables(&self.tables);
        self.store = Some(Arc::new(store));
        self
    }

    /// The broker to relay to. Required.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Other bounds and times than the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Another clock for terms than the machine's; for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Starts the relay on the current tokio runtime.
    ///
    /// A database or broker that cannot be reached is no error: the relay tries again and
    /// [`status`](Relay::status) says so.
    ///
    /// # Errors
    /// What no waiting would mend; see [`StartError`].
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    pub async fn start(self) -> Result<Relay, StartError> {
        let store = self.store.ok_or(StartError::NoStore)?;
        let transport = self.transport.ok_or(StartError::NoTransport)?;
        check_limits(&self.limits, transport.delivery_timeout())?;
        metrics::describe();
        let found = store.check().await;
        let store_health = StoreHealth::default();
        store_health.note(&found, self.clock.now());
        accept(found)?;
        let queue = Arc::new(Queue::new(self.limits.queue_refs_max, Arc::clone(&self.clock)));
        let engine = Arc::new(Engine {
            topics: Topics::new(self.topics.iter().cloned()),
            ledger: Arc::new(Ledger::new(&self.limits)),
            breaker: Breaker::new(self.limits.probe_interval_max),
            queue: Arc::clone(&queue),
            inbox: Inbox::default(),
            stop: Stop::default(),
            wakes: Wakes::default(),
            store_health,
            backlog_meters: BacklogMeters::default(),
            clock: self.clock,
            limits: self.limits,
            store,
            transport,
        });
        let prepared = prepare(&engine, &self.topics).await?;
        if !self.link.connect(queue, Arc::clone(&engine) as _) {
            return Err(StartError::AlreadyRunning);
        }
        let (mut sweepers, mut others) = (JoinSet::new(), JoinSet::new());
        for _ in 0..engine.limits.claim_workers {
            sweepers.spawn(supervised("sweeper", Arc::clone(&engine), sweeper::run));
        }
        for _ in 0..engine.limits.settle_workers {
            others.spawn(supervised("settler", Arc::clone(&engine), settler::run));
        }
        others.spawn(supervised("dispatcher", Arc::clone(&engine), dispatcher::run));
        others.spawn(supervised("keeper", Arc::clone(&engine), keeper::run));
        others.spawn(supervised("scout", Arc::clone(&engine), scout::run));
        let topics = self.topics;
        let prober = move |engine| prober::run(engine, topics.clone(), prepared);
        others.spawn(supervised("prober", Arc::clone(&engine), prober));
        Ok(Relay { engine, link: self.link, sweepers, others })
    }
}

/// What the check of the tables means for the start.
fn accept(found: Result<Vec<StoreWarning>, StoreError>) -> Result<(), StartError> {
    match found {
        Ok(warnings) => {
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            Ok(())
        }
        Err(StoreError::Schema(problem)) => Err(StartError::Schema(problem)),
        Err(error) if error.is_retriable() => {
            tracing::warn!(%error, "the relay starts without its database");
            Ok(())
        }
        Err(error) => Err(StartError::Store(error)),
    }
}

/// Makes or checks the topics; says whether that could be done already.
async fn prepare(engine: &Engine, topics: &[Topic]) -> Result<bool, StartError> {
    match engine.transport.prepare(topics).await {
        Ok(()) => Ok(true),
        Err(error) if error.class().is_outage() => {
            tracing::warn!(%error, "the relay starts without its broker");
            engine.breaker.open(error.class(), engine.clock.now());
            Ok(false)
        }
        Err(error) => Err(StartError::Transport(error)),
    }
}

fn check_limits(limits: &Limits, delivery_timeout: Duration) -> Result<(), StartError> {
    let floor = delivery_timeout.saturating_add(limits.term_margin_duration);
    if floor >= limits.lease_duration {
        return Err(StartError::DeliveryTimeout {
            delivery_timeout,
            margin: limits.term_margin_duration,
            lease: limits.lease_duration,
        });
    }
    let counts = [
        ("claim_rows_max", limits.claim_rows_max),
        ("claim_bytes_max", limits.claim_bytes_max),
        ("claim_workers", limits.claim_workers),
        ("queue_refs_max", limits.queue_refs_max),
        ("confirm_rows_max", limits.confirm_rows_max),
        ("in_flight_max", limits.in_flight_max),
        ("in_flight_bytes_max", limits.in_flight_bytes_max),
        ("settle_rows_max", limits.settle_rows_max),
        ("settle_workers", limits.settle_workers),
        ("backlog_count_max", limits.backlog_count_max),
    ];
    let durations = [
        ("claim_window_duration", limits.claim_window_duration),
        ("poll_interval", limits.poll_interval),
        ("extend_interval", limits.extend_interval),
        ("statement_timeout", limits.statement_timeout),
        ("probe_interval_min", limits.probe_interval_min),
    ];
    let zero_count = counts.iter().find(|(_, count)| *count == 0).map(|(name, _)| *name);
    let zero_duration = durations.iter().find(|(_, duration)| duration.is_zero()).map(|(name, _)| *name);
    match zero_count.or(zero_duration) {
        Some(name) => Err(StartError::Limits(LimitsProblem { name })),
        None => Ok(()),
    }
}

/// Why a relay does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No store was given.
    #[error("the relay has no store: give it one with .store(..)")]
    NoStore,
    /// No transport was given.
    #[error("the relay has no transport: give it one with .transport(..)")]
    NoTransport,
    /// This outbox has a relay already.
    #[error("a relay of this outbox runs already in this process: shut it down first, or share it")]
    AlreadyRunning,
    /// A message could still be under way when its lease ends, and another holder would send it too.
    #[error(
        "the transport's delivery time-out ({delivery_timeout:?}) and the margin ({margin:?}) are not below the lease \
         ({lease:?}): shorten the time-out or give limits with a longer lease_duration"
    )]
    DeliveryTimeout {
        /// The transport's.
        delivery_timeout: Duration,
        /// `Limits::term_margin_duration`.
        margin: Duration,
        /// `Limits::lease_duration`.
        lease: Duration,
    },
    /// A limit makes no sense.
    #[error(transparent)]
    Limits(LimitsProblem),
    /// The tables are missing, of another version, or the database is set so that they cannot be used.
    #[error("{0}")]
    Schema(SchemaProblem),
    /// The database refused the check.
    #[error("the outbox's tables could not be checked: {0}")]
    Store(#[source] StoreError),
    /// The broker is there, and does not fit the configuration.
    #[error("the transport is not as configured: {0}")]
    Transport(#[source] TransportError),
    /// The thread or runtime of a blocking relay could not be made.
    #[error("the relay's thread could not be started: {0}")]
    Runtime(#[source] std::io::Error),
    /// The thread of a blocking relay panicked before the relay ran.
    #[error(transparent)]
    Panicked(RelayPanicked),
}

/// A limit of zero, with which nothing would ever happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit {name} is 0: what it bounds would never be done; give at least 1")]
pub struct LimitsProblem {
    name: &'static str,
}
