use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::lookups::Lookups;
use super::options::Options;
use super::runner::Runner;
use super::shared::Shared;
use super::source::MakeSource;
use super::status::{ConsumerReport, ConsumerStatus};
use super::worker::{MakeWorker, work};
use crate::events::log_event;
use crate::limits::{CONSUMER_CLOSE_TIMEOUT, SHUTDOWN_GRACE, SHUTDOWN_GRACE_MAX};
use crate::panic_guard::catch_panic;

/// A running consumer, on threads of its own.
///
/// End it with [`shutdown`](Self::shutdown), [`shutdown_blocking`](Self::shutdown_blocking) or [`run_until`](Self::run_until). If it is
/// dropped, it ends in the background, and its threads may outlive it for a while.
#[must_use = "a dropped consumer ends: keep it, and end it with `shutdown` or `run_until`"]
pub struct RunningConsumer {
    shared: Arc<Shared>,
    ended: Mutex<mpsc::Receiver<ConsumerReport>>,
}

impl RunningConsumer {
    /// Starts the loop's thread and the workers.
    pub(crate) fn start(options: Options, make_source: MakeSource, make_worker: &MakeWorker) -> Result<Self, String> {
        let shared = Arc::new(Shared::new(Arc::new(options)));
        // Also where a thread cannot be started.
        let end = EndWorkers(Arc::clone(&shared));
        for _ in 0..shared.options.workers.max(1) {
            let (shared, worker) = (Arc::clone(&shared), make_worker());
            spawn("outbox-worker", move || work(&shared, worker))?;
        }
        let (report, ended) = mpsc::channel();
        let (made, result) = mpsc::channel();
        let (of_loop, lookups) = (Arc::clone(&shared), Lookups::new(Arc::clone(make_worker)));
        spawn("outbox-consumer", move || {
            let _end = end;
            match make_source(Arc::clone(&of_loop) as Arc<_>) {
                Ok(source) => {
                    drop(made.send(Ok(())));
                    let consumer = of_loop.options.consumer.to_string();
                    let runner = Runner::new(Arc::clone(&of_loop), source, lookups);
                    if catch_panic("consumer_loop", &consumer, || runner.run(&report)).is_none() {
                        of_loop.note_panic();
                        log_event!(CONSUMER_PANICKED, consumer);
                    }
                }
                Err(error) => drop(made.send(Err(error.to_string()))),
            }
        })?;
        match result.recv() {
            Ok(Ok(())) => Ok(Self { shared, ended: Mutex::new(ended) }),
            Ok(Err(problem)) => Err(problem),
            Err(_) => Err("its thread panicked".to_owned()),
        }
    }

    /// How it is.
    pub fn status(&self) -> ConsumerStatus {
        let (has_panicked, lag) = (self.shared.has_panicked(), self.shared.lag());
        self.shared.with(|engine| ConsumerStatus {
            partitions: engine.ids().len(),
            unprocessed: engine.rows(),
            running: engine.running(),
            lag,
            is_database_away: engine.is_database_away(),
            has_panicked,
        })
    }

    /// Runs until `stop` ends, then shuts down with a grace of 20 s. On tokio.
    ///
    /// # Cancel safety
    /// Cancelling it before `stop` has ended is like dropping the consumer; then, as for [`shutdown`](Self::shutdown).
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> ConsumerReport {
        stop.await;
        self.shutdown(SHUTDOWN_GRACE).await
    }

    /// Ends it: begins no more handlers, waits for those that run, commits, and leaves the group. It takes `grace` at most, and a few
    /// seconds more if the broker does not answer.
    ///
    /// # Panics
    /// Outside of tokio: without a runtime, call [`shutdown_blocking`](Self::shutdown_blocking).
    ///
    /// # Cancel safety
    /// Once it was polled, the consumer ends as if it was waited for. A runtime that is dropped meanwhile waits for that.
    pub async fn shutdown(self, grace: Duration) -> ConsumerReport {
        // The runtime may have no free thread for a while.
        self.shared.stop(grace.min(SHUTDOWN_GRACE_MAX));
        let shared = Arc::clone(&self.shared);
        let ended = tokio::task::spawn_blocking(move || self.shutdown_blocking(grace)).await;
        // Only a runtime that ends does not run it.
        ended.unwrap_or_else(|_| unfinished(&shared))
    }

    /// Like [`shutdown`](Self::shutdown), but blocks the calling thread, and needs no runtime.
    pub fn shutdown_blocking(self, grace: Duration) -> ConsumerReport {
        let grace = grace.min(SHUTDOWN_GRACE_MAX);
        self.shared.stop(grace);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(grace + CONSUMER_CLOSE_TIMEOUT) {
            Ok(report) => report,
            Err(_) => {
                let report = unfinished(&self.shared);
                log_event!(CONSUMER_ENDED_EARLY, consumer = &*self.shared.options.consumer, ?report);
                report
            }
        }
    }
}

/// The report of a consumer that has not ended yet.
fn unfinished(shared: &Shared) -> ConsumerReport {
    shared.with(|engine| ConsumerReport {
        unprocessed: engine.rows(),
        running: engine.running(),
        uncommitted: engine.ids().len(),
        in_time: false,
    })
}

/// Lets the workers end with the loop, even if that panics.
struct EndWorkers(Arc<Shared>);

impl Drop for EndWorkers {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| error.to_string())
}

impl Drop for RunningConsumer {
    fn drop(&mut self) {
        self.shared.stop(Duration::ZERO);
    }
}

impl fmt::Debug for RunningConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningConsumer").field("status", &self.status()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::engine::{Commit, Job, Outcome, QueueKey, Replay};
    use crate::consumer::record::{PartitionId, Record};
    use crate::consumer::source::{Position, Source, SourceError};
    use crate::consumer::worker::{Opened, Worker};
    use crate::store::StoreError;

    /// A client and a database that nothing should be asked of.
    struct Nothing;

    impl Source for Nothing {
        fn poll(&mut self, _within: Duration) -> Result<Option<Record>, SourceError> {
            panic!("of this test")
        }

        fn take_out_of_range(&mut self) -> bool {
            unimplemented!()
        }

        fn take_assigned(&mut self) -> Vec<PartitionId> {
            unimplemented!()
        }

        fn is_assigned(&self, _id: &PartitionId) -> bool {
            unimplemented!()
        }

        fn position(&mut self, _id: &PartitionId) -> Result<Position, SourceError> {
            unimplemented!()
        }

        fn start(&mut self, _id: &PartitionId, _offset: i64) -> Result<(), SourceError> {
            unimplemented!()
        }

        fn stop(&mut self, _id: &PartitionId) -> Result<(), SourceError> {
            unimplemented!()
        }

        fn pause(&mut self, _ids: &[PartitionId]) -> Result<(), SourceError> {
            unimplemented!()
        }

        fn resume(&mut self, _ids: &[PartitionId]) -> Result<(), SourceError> {
            unimplemented!()
        }

        fn commit(&mut self, _commits: &[Commit]) -> Result<(), SourceError> {
            unimplemented!()
        }

        fn commit_and_wait(&mut self, _commits: &[Commit]) -> Result<(), SourceError> {
            unimplemented!()
        }

        fn end(&mut self, _id: &PartitionId) -> Result<i64, SourceError> {
            unimplemented!()
        }
    }

    impl Worker for Nothing {
        fn run(&mut self, _jobs: &[Job]) -> Outcome {
            unimplemented!()
        }

        fn open(&mut self, _id: &PartitionId, _position: &Position) -> Result<Opened, StoreError> {
            unimplemented!()
        }

        fn released(&mut self, _id: &PartitionId) -> Result<Vec<(QueueKey, Replay)>, StoreError> {
            unimplemented!()
        }

        fn ping(&mut self) -> Result<(), StoreError> {
            unimplemented!()
        }

        fn prune(&mut self) -> Result<bool, StoreError> {
            unimplemented!()
        }

        fn rest(&mut self) {}
    }

    #[test]
    fn a_loop_that_panics_says_so() {
        let make_worker: MakeWorker = Arc::new(|| Box::new(Nothing));
        let options = Options::new("kafka", "billing".into());
        let consumer = RunningConsumer::start(options, Box::new(|_| Ok(Box::new(Nothing))), &make_worker);
        let consumer = consumer.expect("it starts");
        let ended = consumer.ended.lock().expect("no panic").recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "it ended without a report");
        assert!(consumer.status().has_panicked);
        let report = consumer.shutdown_blocking(Duration::from_secs(60));
        assert!(!report.is_clean(), "{report:?}");
    }
}
