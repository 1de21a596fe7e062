mod failures;
mod isolation;
mod keys;
mod parked;
mod random;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::consumer::error::HandlerError;
use crate::consumer::options::{OnFailure, Options, Progress};
use crate::message::Headers;
use crate::retry::Fixed;

/// The engine with a clock that the test sets.
pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) now: Instant,
    pub(super) id: PartitionId,
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
        let mut harness = Self { engine: Engine::new(Arc::new(options)), now: Instant::now(), id: partition("0") };
        harness.open(Opening::default());
        harness
    }

    pub(super) fn open(&mut self, opening: Opening) {
        self.engine.open(self.id.clone(), opening, self.now);
    }

    pub(super) fn add(&mut self, offset: i64, key: &str) {
        self.engine.add(record(&self.id, offset, key));
    }

    /// The next job, which must be there.
    pub(super) fn job(&mut self) -> Box<Job> {
        self.try_job().expect("a job")
    }

    pub(super) fn try_job(&mut self) -> Option<Box<Job>> {
        match self.engine.next(self.now) {
            Next::Job(job) => Some(job),
            Next::Wait(_) => None,
        }
    }

    pub(super) fn complete(&mut self, job: &Job, outcome: Outcome) -> Settled {
        self.engine.complete(job, &outcome, self.now)
    }

    pub(super) fn fail(&mut self, job: &Job) -> Settled {
        self.complete(job, Outcome::Failed(HandlerError::retriable("refused")))
    }

    pub(super) fn advance(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    pub(super) fn next_offset(&self) -> i64 {
        self.engine.positions()[0].1
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
