//! The interface to the database, and the threads that use it.

use std::collections::HashSet;
use std::sync::Arc;

use super::engine::{Job, Outcome, QueueKey, Replay};
use super::record::PartitionId;
use super::shared::Shared;
use super::source::Position;
use crate::panic_guard::catch_panic;
use crate::store::StoreError;

/// A connection to the database, with the handler.
pub(crate) trait Worker: Send {
    /// Runs one transaction, of a job or of a batch. The outcome is that of each job.
    fn run(&mut self, jobs: &[Job]) -> Outcome;

    /// Reads what the database knows of a partition that was just assigned.
    fn open(&mut self, id: &PartitionId, position: &Position) -> Result<Opened, StoreError>;

    /// Released records of a partition, in order.
    fn released(&mut self, id: &PartitionId) -> Result<Vec<(QueueKey, Replay)>, StoreError>;

    /// Whether the database answers on a connection.
    fn ping(&mut self) -> Result<(), StoreError>;

    /// Removes old entries of the inbox. Returns whether there are more.
    fn prune(&mut self) -> Result<bool, StoreError>;

    /// Gives the connection back: there is nothing to do.
    fn rest(&mut self);
}

/// What the database knows of a partition.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) start: i64,
    /// The offset that was stored, if it is not in the partition.
    pub(crate) gone: Option<i64>,
    pub(crate) parked_keys: HashSet<Arc<[u8]>>,
    pub(crate) has_parked_alone: bool,
}

/// Makes a worker for each thread.
pub(crate) type MakeWorker = Arc<dyn Fn() -> Box<dyn Worker> + Send + Sync>;

/// Works until the consumer ends.
pub(crate) fn work(shared: &Shared, mut worker: Box<dyn Worker>) {
    while let Some(jobs) = shared.take(|| worker.rest()) {
        let Some(first) = jobs.first() else { continue };
        let began = std::time::Instant::now();
        let outcome = catch_panic("consumer_worker", &first.token.partition.topic, || worker.run(&jobs));
        let outcome = outcome.unwrap_or_else(|| match jobs.len() {
            1 => Outcome::Postponed("a worker panicked: the log has the panic".to_owned()),
            _ => Outcome::BatchFailed,
        });
        shared.complete(&jobs, outcome, began.elapsed());
    }
}
