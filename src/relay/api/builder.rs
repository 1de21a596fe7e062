use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use super::routes::{Route, Transports, shares};
use super::start_error::StartError;
use super::startup_checks::{
    accept, check_delivery_timeout, check_fences, check_leases, check_limits, prepare, prepare_history, prepare_lanes,
    reserve_connections,
};
use crate::clock::Clock;
use crate::events::log_event;
use crate::lane::NodeId;
use crate::limits::Limits;
use crate::metrics;
use crate::naming::TableNames;
use crate::relay::dead_letter_callbacks::{Callbacks, DeadLetterCallbacks};
use crate::relay::direct::dispatcher;
use crate::relay::direct::queue::{Link, Queue, Queues};
use crate::relay::engine::Engine;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::failure_log::FailureLog;
use crate::relay::engine::one_by_one::OneByOne;
use crate::relay::engine::rows::Ledger;
use crate::relay::engine::stop::Stop;
use crate::relay::engine::supervised::{Supervision, supervised};
use crate::relay::engine::wakeups::Wakeups;
use crate::relay::fingerprints::{Fingerprints, KnownShapes};
use crate::relay::health::breaker::Breaker;
use crate::relay::health::counters::BacklogGauges;
use crate::relay::health::database::StoreHealth;
use crate::relay::health::database_clock::DatabaseClock;
use crate::relay::health::gauges::Gauges;
use crate::relay::health::{backlog_counter, prober};
use crate::relay::lanes::ordered_topics::Lanes;
use crate::relay::lanes::{balancer as lane_balancer, fencer as lane_fencer, reader as lane_reader};
use crate::relay::ledger::lease_renewer;
use crate::relay::liveness::Liveness;
use crate::relay::notices::{listener, notifier};
use crate::relay::settle::outcome_queue::OutcomeQueue;
use crate::relay::settle::unflushed::Unflushed;
use crate::relay::settler;
use crate::relay::sweep::{poller, sweeper};
use crate::relay::topics::Topics;
use crate::relay::{Relay, dead_letter_callbacks, pruner};
use crate::store::{OutboxStore, Store, StoreError, shared};
use crate::topic::Topic;
use crate::transport::Transport;

/// Configures and starts a [`Relay`]. From [`Outbox::relay`](crate::Outbox::relay).
#[derive(Debug)]
#[must_use = "a relay runs only after `start`"]
pub struct RelayBuilder {
    topics: Vec<Topic>,
    tables: TableNames,
    link: Arc<Link>,
    store: Option<Arc<dyn Store>>,
    transports: Transports,
    /// By default the store's.
    clock: Option<Arc<dyn Clock>>,
    limits: Limits,
    pub(in crate::relay) callbacks: Callbacks,
    gauges: Gauges,
    /// How many relays share the transports.
    relay_count: usize,
    /// For how many days the audit is kept.
    audit_days: Option<u32>,
    known_shapes: Vec<KnownShapes>,
}

impl RelayBuilder {
    pub(crate) fn new(topics: Vec<Topic>, tables: TableNames, link: Arc<Link>) -> Self {
        Self {
            topics,
            tables,
            link,
            store: None,
            transports: Transports::default(),
            clock: None,
            limits: Limits::default(),
            callbacks: Callbacks::default(),
            gauges: Gauges::default(),
            relay_count: 1,
            audit_days: None,
            known_shapes: Vec::new(),
        }
    }

    /// Sets the database to read from. Required. The store uses the outbox's table names.
    pub fn store(mut self, store: impl OutboxStore) -> Self {
        self.store = Some(shared(store, &self.tables));
        self
    }

    /// Sets the transport for topics without [`Topic::via`](crate::Topic::via). Required if there are such topics.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transports.set_default(Arc::new(transport));
        self
    }

    /// Adds a transport under a name, for the topics that name it ([`Topic::via`](crate::Topic::via)). Each name is given
    /// once; otherwise the relay does not start.
    ///
    /// Each transport has its own queue, workers, breaker, and share of the messages in flight. One that is down or slow does not
    /// delay the others, and the relay starts without those that cannot be reached. Each further transport uses up to
    /// [`Limits::claim_workers`] plus [`Limits::settle_workers`] plus one more database connections, and needs two.
    pub fn transport_named(mut self, name: impl Into<Arc<str>>, transport: impl Transport) -> Self {
        self.transports.add(name.into(), Arc::new(transport));
        self
    }

    /// Makes it one of `count` relays: gives it a name for its gauges, its share of the messages in flight, and the shared
    /// transports.
    pub(in crate::relay) fn with_shared(mut self, name: &Arc<str>, count: usize, transports: &Transports) -> Self {
        self.gauges = Gauges::of(Some(Arc::clone(name)));
        self.relay_count = count;
        self.limits.in_flight_max = (self.limits.in_flight_max / count).max(1);
        self.limits.in_flight_bytes_max = (self.limits.in_flight_bytes_max / count).max(1);
        self.transports.fill(transports, &self.topics);
        self
    }

    /// For how many days the audit is kept; `None`: for ever.
    pub(crate) fn keep_audit_days(mut self, days: Option<u32>) -> Self {
        self.audit_days = days;
        self
    }

    /// The shapes of messages that this process knows.
    pub(crate) fn know_shapes(mut self, shapes: Vec<KnownShapes>) -> Self {
        self.known_shapes = shapes;
        self
    }

    /// Whether a topic goes to the transport of this name.
    pub(super) fn uses_transport(&self, name: &str) -> bool {
        self.topics.iter().any(|topic| topic.transport_name() == name)
    }

    /// Replaces the default bounds and times.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Replaces the store's clock.
    #[cfg(any(test, feature = "_internals"))]
    #[doc(hidden)]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Starts the relay on the current tokio runtime, which must live as long as the relay.
    ///
    /// If the database or a broker cannot be reached, the relay starts anyway, tries again, and reports it in its
    /// [`status`](Relay::status). If the database refuses the login, the relay does not start, because retries cannot correct a
    /// wrong password.
    ///
    /// # How long it takes
    /// Milliseconds, if everything answers. It waits at most 5 s for the database, and at most 20 s for its transports, all at
    /// the same time. A Kafka cluster that does not answer takes 3 s.
    ///
    /// # Errors
    /// Returns a [`StartError`] for what a retry cannot correct.
    ///
    /// # Panics
    /// Panics outside a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    /// If the future is dropped, no relay runs, and the outbox may start another. Topics, lanes and partitions that it has
    /// created stay.
    pub async fn start(mut self) -> Result<Relay, StartError> {
        let store = self.store.take().ok_or(StartError::NoStore)?;
        if self.transports.is_empty() {
            return Err(StartError::NoTransport);
        }
        let routes = std::mem::take(&mut self.transports).route(std::mem::take(&mut self.topics))?;
        check_limits(&self.limits, &self.callbacks)?;
        check_routes(&self.limits, &routes)?;
        reserve_connections(&*store, &self.limits, &routes)?;
        metrics::describe();
        let found = store.check().await;
        let store_health = StoreHealth::default();
        let clock = self.clock.take().unwrap_or_else(|| store.clock());
        store_health.note(&found, clock.now());
        // A conflict is an answer: the further checks can run.
        let has_database = matches!(found, Ok(_) | Err(StoreError::Conflict(_)));
        accept(found)?;
        let link = Arc::clone(&self.link);
        let engines = Arc::new(self.engines(store, store_health, clock, &routes));
        prepare_lanes(&engines, has_database).await?;
        prepare_history(&engines, has_database).await?;
        let prepared =
            try_join_all(routes.iter().zip(&engines.all).map(|(route, engine)| prepare(engine, route))).await?;
        if has_database {
            find_pauses(&engines).await?;
        }
        if !link.connect(queues(&engines), Arc::clone(&engines) as _) {
            return Err(StartError::AlreadyRunning);
        }
        Ok(spawn(engines, link, routes.into_iter().zip(prepared)))
    }

    /// The state that the tasks share.
    fn engines(
        self,
        store: Arc<dyn Store>,
        store_health: StoreHealth,
        clock: Arc<dyn Clock>,
        routes: &[Route],
    ) -> Engines {
        let Self { limits, gauges, tables, callbacks, relay_count, audit_days, link, known_shapes, .. } = self;
        let (stop, wakeups) = (Arc::new(Stop::default()), Arc::new(Wakeups::default()));
        let (node, database_clock) = (NodeId::new(), Arc::new(DatabaseClock::default()));
        let (waiters, fingerprints) = (Arc::clone(link.waiters()), Arc::new(Fingerprints::new(known_shapes)));
        let dead_letter_callbacks =
            Arc::new(DeadLetterCallbacks::new(callbacks, Arc::clone(&clock), Arc::clone(&waiters)));
        let wanted = |route: &Route| (route.transport.in_flight_max() / relay_count).max(1);
        let wanted: Vec<usize> = routes.iter().map(wanted).collect();
        let outbox = outbox_name(&gauges, &tables);
        let engine = |(route, limits): (&Route, Limits)| {
            let gauge = |metric| gauges.of_transport(metric, &route.name);
            let queue = Queue::new(gauge(metrics::QUEUE_DEPTH), limits.queue_rows_max, Arc::clone(&clock));
            let topics = Topics::new(route.topics.iter().cloned(), &gauges);
            Arc::new(Engine {
                name: Arc::clone(&route.name),
                outbox: Arc::clone(&outbox),
                lanes: Lanes::new(node, &topics),
                topics,
                ledger: Arc::new(Ledger::new(gauge(metrics::IN_FLIGHT), &limits)),
                breaker: Breaker::new(Arc::clone(&route.name), gauge(metrics::BREAKER_OPEN), limits.probe_interval_max),
                queue: Arc::new(queue),
                outcome_queue: OutcomeQueue::default(),
                unflushed: Unflushed::default(),
                one_by_one: OneByOne::default(),
                failure_log: FailureLog::default(),
                oldest_in_flight: gauge(metrics::OLDEST_IN_FLIGHT),
                stop: Arc::clone(&stop),
                wakeups: Arc::clone(&wakeups),
                dead_letter_callbacks: Arc::clone(&dead_letter_callbacks),
                waiters: Arc::clone(&waiters),
                fingerprints: Arc::clone(&fingerprints),
                clock: Arc::clone(&clock),
                database_clock: Arc::clone(&database_clock),
                limits,
                store: Arc::clone(&store),
                transport: Arc::clone(&route.transport),
            })
        };
        let all = routes.iter().zip(shares(&limits, &wanted)).map(engine).collect();
        let topics = routes.iter().flat_map(|route| &route.topics);
        let transports = topics.map(|topic| (topic.shared_name(), topic.shared_transport_name())).collect();
        let (liveness, backlog_gauges) = (Arc::new(Liveness::new(clock.now())), BacklogGauges::new(gauges, transports));
        Engines {
            node,
            all,
            store,
            clock,
            limits,
            stop,
            wakeups,
            dead_letter_callbacks,
            store_health,
            database_clock,
            liveness,
            task_health: Arc::default(),
            backlog_gauges,
            audit_days,
        }
    }
}

fn check_routes(limits: &Limits, routes: &[Route]) -> Result<(), StartError> {
    routes.iter().try_for_each(|route| check_delivery_timeout(limits, route))?;
    routes.iter().try_for_each(|route| check_leases(limits, route))?;
    routes.iter().try_for_each(check_fences)
}

/// The outbox's name in logs: its table, and the relay's name if the process has several.
fn outbox_name(gauges: &Gauges, tables: &TableNames) -> Arc<str> {
    match gauges.relay() {
        Some(relay) => format!("{}/{relay}", tables.messages()).into(),
        None => tables.messages().into(),
    }
}

/// Reads which topics are paused before anything is handed over. If that fails, nothing is sent until a poll has read it.
async fn find_pauses(engines: &Engines) -> Result<(), StartError> {
    match poller::first_poll(engines).await {
        Err(error) if error.is_retriable() => {
            log_event!(PAUSES_UNKNOWN, %error);
            Ok(())
        }
        polled => polled.map_err(StartError::Store),
    }
}

fn queues(engines: &Engines) -> Queues {
    let mut all = engines.all.iter();
    let first = all.next().map(|engine| Arc::clone(&engine.queue));
    let first = first.unwrap_or_else(|| unreachable!("there is a transport, and each has an engine"));
    all.fold(Queues::new(first), |queues, engine| queues.with(Arc::clone(&engine.queue), engine.topics.names()))
}

/// Starts every task: those of each engine, and those that all engines share, such as the poller.
fn spawn(engines: Arc<Engines>, link: Arc<Link>, routes: impl Iterator<Item = (Route, bool)>) -> Relay {
    let (mut sweepers, mut others) = (JoinSet::new(), JoinSet::new());
    let stop = || Arc::clone(&engines.stop);
    let supervision = || Supervision { stop: stop(), task_health: Arc::clone(&engines.task_health) };
    for (engine, (route, prepared)) in engines.all.iter().zip(routes) {
        let engine = || Arc::clone(engine);
        for _ in 0..engines.limits.claim_workers {
            sweepers.spawn(supervised("sweeper", supervision(), engine(), sweeper::run));
        }
        for _ in 0..engines.limits.settle_workers {
            others.spawn(supervised("settler", supervision(), engine(), settler::run));
        }
        for lanes in engine().lanes.iter() {
            let (read, kept) = (Arc::clone(lanes), Arc::clone(lanes));
            let reader = move |engine| lane_reader::run(engine, Arc::clone(&read));
            sweepers.spawn(supervised("lane_reader", supervision(), engine(), reader));
            let balancer = move |engine| lane_balancer::run(engine, Arc::clone(&kept));
            others.spawn(supervised("lane_balancer", supervision(), engine(), balancer));
            if lanes.topic.config.is_fenced() {
                let fenced = Arc::clone(lanes);
                let fencer = move |engine| lane_fencer::run(engine, Arc::clone(&fenced));
                others.spawn(supervised("lane_fencer", supervision(), engine(), fencer));
            }
        }
        others.spawn(supervised("dispatcher", supervision(), engine(), dispatcher::run));
        others.spawn(supervised("lease_renewer", supervision(), engine(), lease_renewer::run));
        let prober = move |engine| prober::run(engine, route.topics.clone(), prepared);
        others.spawn(supervised("prober", supervision(), engine(), prober));
    }
    others.spawn(supervised("poller", supervision(), Arc::clone(&engines), poller::run));
    if engines.has_notices() && engines.all.iter().any(|engine| engine.lanes.iter().len() > 0) {
        others.spawn(supervised("notifier", supervision(), Arc::clone(&engines), notifier::run));
        others.spawn(supervised("notice_listener", supervision(), Arc::clone(&engines), listener::run));
    }
    others.spawn(supervised("pruner", supervision(), Arc::clone(&engines), pruner::run));
    if !engines.limits.backlog_interval.is_zero() {
        others.spawn(supervised("backlog_counter", supervision(), Arc::clone(&engines), backlog_counter::run));
    }
    let ends = stop();
    let call = move |callbacks| dead_letter_callbacks::run(callbacks, Arc::clone(&ends));
    others.spawn(supervised("dead_letter_callbacks", supervision(), Arc::clone(&engines.dead_letter_callbacks), call));
    others.spawn(Arc::clone(&engines.liveness).run(stop(), Arc::clone(&engines.clock)));
    Relay::new(engines, link, sweepers, others)
}
