//! The workers: transaction after transaction, through every failure of the database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection};
use diesel_outbox::Outbox;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::admin_actions::AdminActions;
use super::counters::Counters;
use super::panicking_policy::PanickingPolicy;
use super::print_report;
use super::transactions::{Kind, run};
use crate::truth::MessageName;
use crate::wire::{Config, Report};

/// Workers with short transactions; one more has long ones.
const WORKERS: u32 = 4;
/// How often the counts are reported.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// The longest that a worker waits for a statement: a proxy that drops everything does not report an error.
const TIMEOUT: Duration = Duration::from_secs(8);
/// The delay before a worker reconnects to the database.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// What the workers of an application share.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) config: Config,
    pub(super) outbox: Outbox,
    pub(super) admin_actions: AdminActions,
    sequence: AtomicU64,
    stopped: AtomicBool,
    burst: AtomicU64,
    /// By kind, and whether they succeeded.
    counts: Mutex<BTreeMap<(&'static str, bool), u64>>,
    counters: Counters,
    policies: PanickingPolicy,
}

impl Work {
    pub(super) fn new(
        config: Config,
        outbox: Outbox,
        admin_actions: AdminActions,
        counters: Counters,
        policies: PanickingPolicy,
    ) -> Self {
        Self {
            config,
            outbox,
            admin_actions,
            sequence: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            burst: AtomicU64::new(0),
            counts: Mutex::default(),
            counters,
            policies,
        }
    }

    /// A name that no other message has.
    pub(super) fn name(&self) -> MessageName {
        MessageName { process: self.config.process, sequence: self.sequence.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(super) fn burst(&self, messages: u64) {
        self.burst.fetch_add(messages, Ordering::AcqRel);
    }

    /// The counts so far.
    pub(super) fn report(&self) -> Report {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |(kind, has_ended): &(&str, bool)| match has_ended {
            true => (*kind).to_owned(),
            false => format!("{kind}, failed"),
        };
        let transactions = counts
            .iter()
            .map(|(kind, count)| (named(kind), *count))
            .chain(self.admin_actions.counts())
            .chain([self.policies.count()]);
        Report::Counts { transactions: transactions.collect(), metrics: self.counters.counts() }
    }

    fn count(&self, kind: Kind, has_ended: bool) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry((kind.name(), has_ended)).or_default() += 1;
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Takes a message of a requested burst.
    fn take_from_burst(&self) -> Option<Kind> {
        let part = 200;
        let taken = self.burst.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| match left {
            0 => None,
            left => Some(left.saturating_sub(part)),
        });
        taken.ok().map(|left| Kind::Batch(left.min(part)))
    }
}

/// Running workers.
#[derive(Debug)]
pub(super) struct Workers(JoinSet<()>);

impl Workers {
    /// Waits for the open transactions.
    pub(super) async fn ended(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

pub(super) fn start(work: &Arc<Work>) -> Workers {
    let mut workers = JoinSet::new();
    for number in 0..=WORKERS {
        workers.spawn(run_worker(Arc::clone(work), number));
    }
    workers.spawn(report_counts(Arc::clone(work)));
    Workers(workers)
}

async fn run_worker(work: Arc<Work>, number: u32) {
    let seed = work.config.seed ^ (u64::from(work.config.process) << 8) ^ u64::from(number);
    let mut random = fastrand::Rng::with_seed(seed);
    let is_long = number == WORKERS;
    let mut connection: Option<AsyncPgConnection> = None;
    while !work.is_stopped() {
        let Some(open) = &mut connection else {
            let opened = timeout(TIMEOUT, AsyncPgConnection::establish(&work.config.database_url)).await;
            connection = opened.ok().and_then(Result::ok);
            if connection.is_none() {
                sleep(RETRY_DELAY).await;
            }
            continue;
        };
        let kind = match is_long {
            true => Kind::Long,
            false => work.take_from_burst().unwrap_or_else(|| Kind::pick(&mut random, work.config.load.all_features)),
        };
        let time_limit = kind.time_limit(&mut random).unwrap_or(TIMEOUT);
        let ended = timeout(time_limit, run(&work, open, kind, &mut random)).await;
        work.count(kind, matches!(ended, Ok(Ok(()))) || kind == Kind::Cancelled);
        // Cancelled, or without a database: the connection is dropped, as a pool does.
        if !matches!(ended, Ok(Ok(()))) {
            connection = None;
        }
        sleep(Duration::from_millis(random.u64(..=work.config.load.pause_ms * 2))).await;
    }
}

async fn report_counts(work: Arc<Work>) {
    while !work.is_stopped() {
        sleep(REPORT_INTERVAL).await;
        print_report(&work.report());
    }
}
