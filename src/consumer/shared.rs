//! The engine between the loop's thread and the workers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::engine::{Commit, Engine, Job, Next, Outcome, Work};
use super::options::Options;
use super::record::{PartitionId, Record};
use super::report;
use super::source::RevocationListener;
use crate::limits::CONSUMER_RELEASED_POLL_INTERVAL;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::retry::retry_wait;

pub(crate) struct Shared {
    pub(crate) options: Arc<Options>,
    state: Mutex<State>,
    /// There may be work.
    has_work: Condvar,
    /// A job has ended, or the consumer is to stop.
    has_ended: Condvar,
    /// Failures of the consumer's own statements.
    failures: Repeated,
}

struct State {
    engine: Engine,
    /// The grace of a shutdown that was asked for.
    stop: Option<Duration>,
    /// Workers end.
    is_over: bool,
    /// The loop's thread ended by a panic.
    has_panicked: bool,
    /// As it was measured last.
    lag: Option<usize>,
}

impl Shared {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        let engine = Engine::new(Arc::clone(&options));
        let state = State { engine, stop: None, is_over: false, has_panicked: false, lag: None };
        Self {
            options,
            state: Mutex::new(state),
            has_work: Condvar::new(),
            has_ended: Condvar::new(),
            failures: Repeated::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the engine, and wakes the workers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Engine) -> T) -> T {
        let changed = change(&mut self.lock().engine);
        self.has_work.notify_all();
        changed
    }

    /// Reads the engine, or changes what is no worker's concern.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&mut Engine) -> T) -> T {
        read(&mut self.lock().engine)
    }

    /// Adds a record that was read. Returns whether its partition is to be paused.
    pub(crate) fn add(&self, record: Record) -> bool {
        let id = record.partition.clone();
        let mut state = self.lock();
        state.engine.add(record);
        let is_full = state.engine.is_full(&id);
        drop(state);
        self.has_work.notify_one();
        is_full
    }

    /// Waits for a job, or for those of a batch; `None` if the consumer has ended. `rest` is called when there have been none for a while.
    pub(crate) fn take(&self, mut rest: impl FnMut()) -> Option<Vec<Job>> {
        let mut state = self.lock();
        let mut is_resting = false;
        loop {
            if state.is_over {
                return None;
            }
            let now = Instant::now();
            let until = match state.engine.next(now) {
                Next::Jobs(jobs) => return Some(jobs),
                Next::Wait(until) => until,
            };
            let idle = CONSUMER_RELEASED_POLL_INTERVAL;
            let wait = until.map_or(idle, |until| until.saturating_duration_since(now).min(idle));
            let (woken, timeout) = self.has_work.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() && !is_resting {
                is_resting = true;
                drop(state);
                rest();
                state = self.lock();
            }
        }
    }

    /// Takes the outcome of a job, or of a batch: then it is that of each of its jobs.
    pub(crate) fn complete(&self, jobs: &[Job], outcome: Outcome, took: Duration) {
        let Some(job) = jobs.first() else { return };
        let outcome = self.lock().engine.judge(job, outcome);
        if let (Outcome::Failed(error), Work::Record(record), Some(hook)) =
            (&outcome, &job.work, &self.options.on_error)
        {
            // A panic of the hook changes nothing.
            let _ = crate::panic_guard::catch_panic("on_error", record.topic(), || (hook.0)(record, error));
        }
        if let Outcome::DatabaseAway(error) = &outcome {
            self.database_is_away(error);
        }
        // Before the lock: the policy is the application's, and may be slow, or ask for the status.
        let wait = match &outcome {
            Outcome::Failed(_) => retry_wait(&*self.options.retry, &job.token.partition.topic, job.attempt),
            _ => Duration::ZERO,
        };
        let mut state = self.lock();
        let now = Instant::now();
        // Under one lock: nobody may take a record of a queue before those ahead of it are settled.
        let settled: Vec<_> = jobs.iter().map(|job| state.engine.complete(job, &outcome, wait, now)).collect();
        let has_groups = state.engine.has_groups();
        drop(state);
        // The last one of a group makes more than one job ready, as do those of a batch.
        match has_groups || jobs.len() > 1 {
            true => self.has_work.notify_all(),
            false => self.has_work.notify_one(),
        }
        self.has_ended.notify_all();
        if let Outcome::Postponed(error) = &outcome {
            let consumer = &*self.options.consumer;
            warn_once_a_minute!(CONSUMER_TROUBLE, self.failures, error, consumer);
        }
        if jobs.len() > 1 {
            report::batch_ended(&self.options, &outcome);
        }
        let took = took / u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        for (job, settled) in jobs.iter().zip(&settled) {
            report::completed(&self.options, job, &outcome, settled, took);
        }
    }

    /// Lets nothing run until the loop finds that the database answers.
    pub(crate) fn database_is_away(&self, error: &str) {
        if self.lock().engine.database_is_away(Instant::now()) {
            report::database_away(&self.options, error);
        }
    }

    /// Goes on after an outage.
    pub(crate) fn database_is_back(&self) {
        if self.change(Engine::database_is_back) {
            report::database_back(&self.options);
        }
    }

    /// Notes that the loop's thread ended by a panic.
    pub(crate) fn note_panic(&self) {
        self.lock().has_panicked = true;
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.lock().has_panicked
    }

    pub(crate) fn lag(&self) -> Option<usize> {
        self.lock().lag
    }

    pub(crate) fn set_lag(&self, records: usize) {
        self.lock().lag = Some(records);
    }

    /// Asks the loop to stop.
    pub(crate) fn stop(&self, grace: Duration) {
        self.lock().stop.get_or_insert(grace);
        self.has_ended.notify_all();
    }

    /// The grace of the shutdown that was asked for.
    pub(crate) fn is_stopping(&self) -> Option<Duration> {
        self.lock().stop
    }

    /// Lets the workers end.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.has_work.notify_all();
    }

    /// Hands out nothing more of these partitions, and waits until what runs has ended. Returns whether it has.
    pub(crate) fn drain(&self, ids: &[PartitionId], within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.lock();
        state.engine.close(ids);
        while !state.engine.is_quiet(ids) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) = self.has_ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

impl RevocationListener for Shared {
    fn revoke(&self, ids: &[PartitionId], is_lost: bool) -> Vec<Commit> {
        let wait = if is_lost { Duration::ZERO } else { self.options.rebalance_wait };
        let is_quiet = self.drain(ids, wait);
        let commits = self.change(|engine| engine.remove(ids));
        report::revoked(&self.options, ids, is_lost, is_quiet);
        if is_lost { Vec::new() } else { commits }
    }
}
