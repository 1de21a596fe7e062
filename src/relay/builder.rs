use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use super::breaker::Breaker;
use super::caution::Caution;
use super::engine::Engine;
use super::engines::Engines;
use super::gauges::Gauges;
use super::health::StoreHealth;
use super::inbox::Inbox;
use super::lanes::all::Lanes;
use super::lanes::{fencer as lane_fencer, keeper as lane_keeper, reader as lane_reader};
use super::ledger::Ledger;
use super::meters::BacklogMeters;
use super::notices::{crier, hearer};
use super::own_clock::OwnClock;
use super::preparation::{
    accept, check_delivery_timeout, check_fences, check_leases, check_limits, prepare, prepare_history, prepare_lanes,
};
use super::queue::{Link, Queue, Queues};
use super::routes::{Route, Transports, shares};
use super::start_error::StartError;
use super::stop::Stop;
use super::supervised::supervised;
use super::teller::{Listeners, Teller};
use super::topics::Topics;
use super::wakes::Wakes;
use super::{Relay, dispatcher, keeper, prober, pruner, scout, settler, sweeper, teller};
use crate::clock::{Clock, SystemClock};
use crate::lane::NodeId;
use crate::limits::Limits;
use crate::metrics;
use crate::naming::TableNames;
use crate::store::Store;
use crate::topic::{DEFAULT_TRANSPORT, Topic};
use crate::transport::Transport;

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
    gauges: Gauges,
    /// How many relays have the transports in common.
    sharers: usize,
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
            gauges: Gauges::default(),
            sharers: 1,
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

    /// One of `count`: with a name for its gauges, its share of what may be in flight, and the transports that it has in common
    /// with the others.
    pub(super) fn among(mut self, name: &Arc<str>, count: usize, transports: &Transports) -> Self {
        self.gauges = Gauges::of(Some(Arc::clone(name)));
        self.sharers = count;
        self.limits.in_flight_max = (self.limits.in_flight_max / count).max(1);
        self.limits.in_flight_bytes_max = (self.limits.in_flight_bytes_max / count).max(1);
        self.transports.fill(transports, &self.topics);
        self
    }

    /// Whether a topic goes to the transport of this name.
    pub(super) fn names_transport(&self, name: &str) -> bool {
        self.topics.iter().any(|topic| topic.transport_name() == name)
    }

    /// Other bounds and times than the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Another clock for terms than the machine's; for tests. One that panics is asked no more: the machine's goes on from there.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(OwnClock::new(clock));
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
    ///
    /// # Cancel safety
    /// Dropped, the future leaves no relay behind, and the outbox may start another. Topics, lanes and partitions that it has made
    /// by then stay.
    pub async fn start(self) -> Result<Relay, StartError> {
        let store = self.store.ok_or(StartError::NoStore)?;
        if self.transports.is_empty() {
            return Err(StartError::NoTransport);
        }
        let routes = self.transports.route(self.topics)?;
        check_limits(&self.limits, &self.listeners)?;
        routes.iter().try_for_each(|route| check_delivery_timeout(&self.limits, route))?;
        routes.iter().try_for_each(|route| check_leases(&self.limits, route))?;
        routes.iter().try_for_each(check_fences)?;
        metrics::describe();
        let found = store.check().await;
        let store_health = StoreHealth::default();
        store_health.note(&found, self.clock.now());
        let has_database = found.is_ok();
        accept(found)?;
        let (stop, wakes) = (Arc::new(Stop::default()), Arc::new(Wakes::default()));
        let node = NodeId::new();
        let teller = Arc::new(Teller::new(self.listeners, Arc::clone(&self.clock)));
        let wanted = |route: &Route| (route.transport.in_flight_max() / self.sharers).max(1);
        let wanted: Vec<usize> = routes.iter().map(wanted).collect();
        let outbox: Arc<str> = match self.gauges.relay() {
            Some(relay) => format!("{}/{relay}", self.tables.messages()).into(),
            None => self.tables.messages().into(),
        };
        let engine = |(route, limits): (&Route, Limits)| {
            let gauge = |metric| self.gauges.of_transport(metric, &route.name);
            let queue = Queue::new(gauge(metrics::QUEUE_DEPTH), limits.queue_refs_max, Arc::clone(&self.clock));
            let topics = Topics::new(route.topics.iter().cloned(), &self.gauges);
            Arc::new(Engine {
                name: Arc::clone(&route.name),
                outbox: Arc::clone(&outbox),
                lanes: Lanes::new(node, &topics),
                topics,
                ledger: Arc::new(Ledger::new(gauge(metrics::IN_FLIGHT), &limits)),
                breaker: Breaker::new(Arc::clone(&route.name), gauge(metrics::BREAKER_OPEN), limits.probe_interval_max),
                queue: Arc::new(queue),
                inbox: Inbox::default(),
                caution: Caution::default(),
                oldest_in_flight: gauge(metrics::OLDEST_IN_FLIGHT),
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
        let (clock, limits, backlog_meters) = (self.clock, self.limits, BacklogMeters::new(self.gauges));
        let engines =
            Arc::new(Engines { node, all, store, clock, limits, stop, wakes, teller, store_health, backlog_meters });
        prepare_lanes(&engines, has_database).await?;
        prepare_history(&engines).await?;
        let prepared =
            try_join_all(routes.iter().zip(&engines.all).map(|(route, engine)| prepare(engine, route))).await?;
        // What is paused is known before anything is handed over. Where it cannot be asked, everything waits for that.
        if has_database && let Err(error) = scout::first_look(&engines).await {
            if !error.is_retriable() {
                return Err(StartError::Store(error));
            }
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
            if lanes.topic.topic.is_fenced() {
                let fenced = Arc::clone(lanes);
                let fencer = move |engine| lane_fencer::run(engine, Arc::clone(&fenced));
                others.spawn(supervised("lane_fencer", stop(), engine(), fencer));
            }
        }
        others.spawn(supervised("dispatcher", stop(), engine(), dispatcher::run));
        others.spawn(supervised("keeper", stop(), engine(), keeper::run));
        let prober = move |engine| prober::run(engine, route.topics.clone(), prepared);
        others.spawn(supervised("prober", stop(), engine(), prober));
    }
    others.spawn(supervised("scout", stop(), Arc::clone(&engines), scout::run));
    if engines.has_notices() && engines.all.iter().any(|engine| engine.lanes.iter().len() > 0) {
        others.spawn(supervised("crier", stop(), Arc::clone(&engines), crier::run));
        others.spawn(supervised("hearer", stop(), Arc::clone(&engines), hearer::run));
    }
    if engines.store.history().is_some() {
        others.spawn(supervised("pruner", stop(), Arc::clone(&engines), pruner::run));
    }
    let ends = stop();
    let tell = move |teller| teller::run(teller, Arc::clone(&ends));
    others.spawn(supervised("teller", stop(), Arc::clone(&engines.teller), tell));
    Relay { engines, link, sweepers, others }
}
