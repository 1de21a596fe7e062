use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::breaker::Breaker;
use super::engine::Engine;
use super::engines::Engines;
use super::health::StoreHealth;
use super::inbox::Inbox;
use super::lanes::all::Lanes;
use super::lanes::{keeper as lane_keeper, reader as lane_reader};
use super::ledger::Ledger;
use super::meters::BacklogMeters;
use super::panicked::RelayPanicked;
use super::queue::{Link, Queue, Queues};
use super::routes::{Route, RoutingProblem, Transports, shares};
use super::stop::Stop;
use super::supervised::supervised;
use super::teller::{Listeners, Teller};
use super::topics::Topics;
use super::wakes::Wakes;
use super::{Relay, dispatcher, keeper, prober, pruner, scout, settler, sweeper, teller};
use crate::clock::{Clock, SystemClock};
use crate::lane::NodeId;
use crate::limits::{Limits, PREPARE_TIMEOUT};
use crate::metrics;
use crate::naming::TableNames;
use crate::store::{SchemaProblem, Store, StoreError, StoreWarning};
use crate::topic::{DEFAULT_TRANSPORT, Topic};
use crate::transport::{FailureClass, Transport, TransportError};

/// Puts a relay together. Made by [`Outbox::relay`](crate::Outbox::relay).
#[derive(Debug)]
#[must_use = "a relay runs only after `start`"]
pub struct RelayBuilder {
    topics: Vec<Topic>,
    tables: TableNames,
    link: Arc<Link>,
    store: Option<Arc<dyn Store>>,
    transports: Transports,
    clock: Arc<dyn Clock>,
    limits: Limits,
    pub(super) listeners: Listeners,
}

impl RelayBuilder {
    pub(crate) fn new(topics: Vec<Topic>, tables: TableNames, link: Arc<Link>) -> Self {
        Self {
            topics,
            tables,
            link,
            store: None,
            transports: Transports::default(),
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            listeners: Listeners::default(),
        }
    }

    /// The database to relay from. Required. It is told where the tables are: where the outbox writes to.
    pub fn store(mut self, mut store: impl Store) -> Self {
        store.use_tables(&self.tables);
        self.store = Some(Arc::new(store));
        self
    }

    /// The broker to relay to, for the topics that name no other. Required where there are such.
    pub fn transport(self, transport: impl Transport) -> Self {
        self.transport_named(DEFAULT_TRANSPORT, transport)
    }

    /// A broker for the topics that name it ([`Topic::via`](crate::Topic::via)). Under one name the last one counts.
    ///
    /// Each transport has a queue, workers, a breaker and a share of what may be in flight of its own: one that is down
    /// or slow keeps none of the others waiting, and a relay starts without those that cannot be reached. The database
    /// needs as many connections more for each as [`Limits::claim_workers`] and [`Limits::settle_workers`] say, and one
    /// to confirm.
    pub fn transport_named(mut self, name: impl Into<Arc<str>>, transport: impl Transport) -> Self {
        self.transports.set(name.into(), Arc::new(transport));
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
        if self.transports.is_empty() {
            return Err(StartError::NoTransport);
        }
        let routes = self.transports.route(self.topics)?;
        check_limits(&self.limits, &self.listeners)?;
        routes.iter().try_for_each(|route| check_delivery_timeout(&self.limits, route))?;
        metrics::describe();
        let found = store.check().await;
        let store_health = StoreHealth::default();
        store_health.note(&found, self.clock.now());
        let has_database = found.is_ok();
        accept(found)?;
        let (stop, wakes) = (Arc::new(Stop::default()), Arc::new(Wakes::default()));
        let node = NodeId::new();
        let teller = Arc::new(Teller::new(self.listeners, Arc::clone(&self.clock)));
        let wanted: Vec<usize> = routes.iter().map(|route| route.transport.in_flight_max()).collect();
        let engine = |(route, limits): (&Route, Limits)| {
            let queue = Queue::new(Arc::clone(&route.name), limits.queue_refs_max, Arc::clone(&self.clock));
            let topics = Topics::new(route.topics.iter().cloned());
            Arc::new(Engine {
                name: Arc::clone(&route.name),
                lanes: Lanes::new(node, &topics),
                topics,
                ledger: Arc::new(Ledger::new(Arc::clone(&route.name), &limits)),
                breaker: Breaker::new(Arc::clone(&route.name), limits.probe_interval_max),
                queue: Arc::new(queue),
                inbox: Inbox::default(),
                stop: Arc::clone(&stop),
                wakes: Arc::clone(&wakes),
                teller: Arc::clone(&teller),
                clock: Arc::clone(&self.clock),
                limits,
                store: Arc::clone(&store),
                transport: Arc::clone(&route.transport),
            })
        };
        let all: Vec<_> = routes.iter().zip(shares(&self.limits, &wanted)).map(engine).collect();
        let (clock, limits, backlog_meters) = (self.clock, self.limits, BacklogMeters::default());
        let engines =
            Arc::new(Engines { node, all, store, clock, limits, stop, wakes, teller, store_health, backlog_meters });
        prepare_lanes(&engines).await?;
        prepare_history(&engines).await?;
        let prepared =
            try_join_all(routes.iter().zip(&engines.all).map(|(route, engine)| prepare(engine, route))).await?;
        // What is paused is known before anything is handed over. Where it cannot be asked, everything waits for that.
        if has_database && let Err(error) = scout::look(&engines).await {
            tracing::warn!(%error, "nothing is sent before it is known what is paused");
        }
        if !self.link.connect(queues(&engines), Arc::clone(&engines) as _) {
            return Err(StartError::AlreadyRunning);
        }
        Ok(spawn(engines, self.link, routes.into_iter().zip(prepared)))
    }
}

fn queues(engines: &Engines) -> Queues {
    let mut all = engines.all.iter();
    let first = all.next().map(|engine| Arc::clone(&engine.queue));
    let first = first.unwrap_or_else(|| unreachable!("there is a transport, and each has an engine"));
    all.fold(Queues::new(first), |queues, engine| queues.with(Arc::clone(&engine.queue), engine.topics.names()))
}

/// Starts every task: those of each engine, and the scout, which looks for all of them.
fn spawn(engines: Arc<Engines>, link: Arc<Link>, routes: impl Iterator<Item = (Route, bool)>) -> Relay {
    let (mut sweepers, mut others) = (JoinSet::new(), JoinSet::new());
    let stop = || Arc::clone(&engines.stop);
    for (engine, (route, prepared)) in engines.all.iter().zip(routes) {
        let engine = || Arc::clone(engine);
        for _ in 0..engines.limits.claim_workers {
            sweepers.spawn(supervised("sweeper", stop(), engine(), sweeper::run));
        }
        for _ in 0..engines.limits.settle_workers {
            others.spawn(supervised("settler", stop(), engine(), settler::run));
        }
        for lanes in engine().lanes.iter() {
            let (read, kept) = (Arc::clone(lanes), Arc::clone(lanes));
            let reader = move |engine| lane_reader::run(engine, Arc::clone(&read));
            sweepers.spawn(supervised("lane_reader", stop(), engine(), reader));
            let keeper = move |engine| lane_keeper::run(engine, Arc::clone(&kept));
            others.spawn(supervised("lane_keeper", stop(), engine(), keeper));
        }
        others.spawn(supervised("dispatcher", stop(), engine(), dispatcher::run));
        others.spawn(supervised("keeper", stop(), engine(), keeper::run));
        let prober = move |engine| prober::run(engine, route.topics.clone(), prepared);
        others.spawn(supervised("prober", stop(), engine(), prober));
    }
    others.spawn(supervised("scout", stop(), Arc::clone(&engines), scout::run));
    if pruner::has_work(&engines) {
        others.spawn(supervised("pruner", stop(), Arc::clone(&engines), pruner::run));
    }
    let ends = stop();
    let tell = move |teller| teller::run(teller, Arc::clone(&ends));
    others.spawn(supervised("teller", stop(), Arc::clone(&engines.teller), tell));
    Relay { engines, link, sweepers, others }
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

/// Makes or compares the lanes of ordered topics; where the database cannot be asked, their keeper does it later.
async fn prepare_lanes(engines: &Engines) -> Result<(), StartError> {
    let lanes: Vec<_> = engines.all.iter().flat_map(|engine| engine.lanes.iter()).collect();
    if lanes.is_empty() {
        return Ok(());
    }
    let store = engines.store.lanes().ok_or(StartError::NoLanes)?;
    let counts: Vec<_> = lanes.iter().map(|lanes| lanes.count()).collect();
    let prepared = store.prepare_lanes(&counts).await;
    if prepared.is_ok() {
        lanes.iter().for_each(|lanes| lanes.set_prepared());
    }
    accept(prepared.map(|()| Vec::new()))
}

/// Looks for the tables of the history, and makes room for what will be kept before the first of it comes.
async fn prepare_history(engines: &Engines) -> Result<(), StartError> {
    if !pruner::has_work(engines) {
        return Ok(());
    }
    let store = engines.store.history().ok_or(StartError::NoHistory)?;
    let days = pruner::days(engines);
    if days.is_empty() {
        return Ok(());
    }
    accept(store.check_history().await.map(|()| Vec::new()))?;
    if let Err(error) = store.make_room(&days).await {
        tracing::warn!(%error, "no room could be made ahead in the history: trying again");
    }
    Ok(())
}

/// Makes or checks the topics of a transport; says whether that could be done already.
async fn prepare(engine: &Engine, route: &Route) -> Result<bool, StartError> {
    let prepared = timeout(PREPARE_TIMEOUT, engine.transport.prepare(&route.topics)).await;
    match prepared.unwrap_or_else(|_| Err(TransportError::new(FailureClass::Connection, PrepareTimeout))) {
        Ok(()) => Ok(true),
        Err(error) if error.class().is_outage() => {
            tracing::warn!(%error, transport = &*engine.name, "the relay starts without its broker");
            engine.breaker.open(error.class(), engine.clock.now());
            Ok(false)
        }
        Err(error) => Err(StartError::Transport { transport: Arc::clone(&engine.name), source: error }),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the topics were not made or checked within {PREPARE_TIMEOUT:?}")]
struct PrepareTimeout;

fn check_delivery_timeout(limits: &Limits, route: &Route) -> Result<(), StartError> {
    let delivery_timeout = route.transport.delivery_timeout();
    let (margin, lease) = (limits.term_margin_duration, limits.lease_duration);
    if delivery_timeout.saturating_add(margin) < lease {
        return Ok(());
    }
    Err(StartError::DeliveryTimeout { transport: Arc::clone(&route.name), delivery_timeout, margin, lease })
}

fn check_limits(limits: &Limits, listeners: &Listeners) -> Result<(), StartError> {
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
        ("lane_lease_duration", limits.lane_lease_duration),
        ("prune_interval", limits.prune_interval),
        (
            "window_duration of the dead letter alert",
            listeners.alert.as_ref().map_or(Duration::MAX, |of| of.window_duration),
        ),
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
    /// A topic is ordered, and the store knows no lanes.
    #[error(
        "a topic is ordered by key, and this store knows no lanes: implement Store::lanes, or use a store that does"
    )]
    NoLanes,
    /// A topic keeps sent messages or ages dead letters out, and the store has no part for that.
    #[error(
        "a topic has keep_sent_days or keep_dead_days, and this store keeps nothing: implement Store::history, or use a store that does"
    )]
    NoHistory,
    /// This outbox has a relay already.
    #[error("a relay of this outbox runs already in this process: shut it down first, or share it")]
    AlreadyRunning,
    /// A message could still be under way when its lease ends, and another holder would send it too.
    #[error(
        "the delivery time-out ({delivery_timeout:?}) of the transport {transport:?} and the margin ({margin:?}) are not below the lease \
         ({lease:?}): shorten the time-out or give limits with a longer lease_duration"
    )]
    DeliveryTimeout {
        /// The transport's name.
        transport: Arc<str>,
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
    /// Topics and transports do not fit together.
    #[error(transparent)]
    Routing(#[from] RoutingProblem),
    /// The broker is there, and does not fit the configuration.
    #[error("the transport {transport:?} is not as configured: {source}")]
    Transport {
        /// The transport's name.
        transport: Arc<str>,
        /// What does not fit.
        source: TransportError,
    },
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
