mod batches;
mod copies;
mod failures;
mod isolation;
mod keys;
mod parked;
mod random;
mod suspects;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::consumer::error::HandlerError;
use crate::consumer::options::{OnFailure, Options, Progress};
use crate::message::Headers;
use crate::retry::{Fixed, retry_wait};

/// The engine with a clock that the test sets.
pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) now: Instant,
    pub(super) id: PartitionId,
    /// What the broker was told last.
    broker: HashMap<PartitionId, Note>,
}

pub(super) fn options() -> Options {
    let mut options = Options::new("kafka", "billing".into());
    options.retry = Arc::new(Fixed::seconds(&[1, 2, 4]));
    options
}

pub(super) fn partition(name: &str) -> PartitionId {
    PartitionId { topic: "orders".into(), name: name.into() }
}

impl Harness {
    /// With one partition that begins at 0.
    pub(super) fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = options();
        change(&mut options);
        let (engine, broker) = (Engine::new(Arc::new(options)), HashMap::new());
        let mut harness = Self { engine, now: Instant::now(), id: partition("0"), broker };
        harness.open(Opening::default());
        harness
    }

    pub(super) fn open(&mut self, opening: Opening) {
        self.open_other(self.id.clone(), opening);
    }

    pub(super) fn open_other(&mut self, id: PartitionId, opening: Opening) {
        self.engine.open(id.clone(), opening, self.now);
        let note = self.engine.partitions[&id].note();
        self.broker.insert(id, note);
    }

    fn tell(&mut self, commits: &[Commit]) {
        self.broker.extend(commits.iter().map(|commit| (commit.partition.clone(), commit.note.clone())));
    }

    /// Commits what is due.
    pub(super) fn commits(&mut self) -> Vec<Commit> {
        let commits = self.engine.commits(self.now);
        self.tell(&commits);
        commits
    }

    pub(super) fn marked(&mut self, mark: &Mark) {
        self.tell(&mark.commits);
        self.engine.marked(mark);
    }

    pub(super) fn remove(&mut self) -> Vec<Commit> {
        let commits = self.engine.remove(std::slice::from_ref(&self.id));
        self.tell(&commits);
        commits
    }

    /// The broker has to know of each record of a group that it runs, and of no group while anything else does.
    fn assert_is_known(&self, job: &Job) {
        let running = self.broker.iter().filter_map(|(id, note)| Some((id, note.running?)));
        let known: Vec<_> = running.collect();
        let is_isolated = self.engine.partitions[&job.token.partition].isolated_left.is_some();
        match &job.work {
            Work::Record(record) if is_isolated && job.step == Step::Handle => {
                let [(id, group)] = known[..] else { panic!("{known:?} are known while {job:?} runs") };
                assert!(*id == record.partition && group.contains(record.offset), "{group:?}: {job:?}");
            }
            _ => assert!(known.is_empty() || is_isolated && job.step != Step::Handle, "{known:?}: {job:?}"),
        }
    }

    pub(super) fn add(&mut self, offset: i64, key: &str) {
        self.engine.add(record(&self.id, offset, key));
    }

    /// The next job, which must be there.
    pub(super) fn job(&mut self) -> Box<Job> {
        self.try_job().expect("a job")
    }

    pub(super) fn try_job(&mut self) -> Option<Box<Job>> {
        let mut jobs = self.jobs();
        assert!(jobs.len() <= 1, "a batch: {jobs:?}");
        jobs.pop().map(Box::new)
    }

    /// The next job, or batch; none if there is none.
    pub(super) fn jobs(&mut self) -> Vec<Job> {
        match self.engine.next(self.now) {
            Next::Jobs(jobs) => {
                jobs.iter().for_each(|job| self.assert_is_known(job));
                jobs
            }
            Next::Wait(_) => Vec::new(),
        }
    }

    /// Takes the outcome of a batch.
    pub(super) fn complete_all(&mut self, jobs: &[Job], outcome: &Outcome) {
        for job in jobs {
            self.engine.complete(job, outcome, Duration::from_secs(1), self.now);
        }
    }

    pub(super) fn complete(&mut self, job: &Job, outcome: Outcome) -> Settled {
        let wait = retry_wait(&*self.engine.options.retry, &job.token.partition.topic, job.attempt);
        self.engine.complete(job, &outcome, wait, self.now)
    }

    pub(super) fn fail(&mut self, job: &Job) -> Settled {
        self.complete(job, Outcome::Failed(HandlerError::retriable("refused")))
    }

    pub(super) fn advance(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    pub(super) fn next_offset(&self) -> i64 {
        self.engine.positions()[0].next
    }
}

/// Without a key if `key` is empty.
pub(super) fn record(id: &PartitionId, offset: i64, key: &str) -> Record {
    let key = (!key.is_empty()).then(|| Arc::from(key.as_bytes()));
    Record { partition: id.clone(), offset, key, payload: Some(vec![0; 100]), headers: Headers::new(), timestamp: None }
}

pub(super) fn offset(job: &Job) -> i64 {
    match &job.work {
        Work::Record(record) => record.offset,
        Work::Replay(replay) => panic!("a replay: {replay:?}"),
    }
}
