use std::fmt;
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
use crate::limits::{CONSUMER_CLOSE_TIMEOUT, SHUTDOWN_GRACE_MAX};
use crate::panic_guard::catch_panic;

/// A running consumer, on threads of its own.
///
/// End it with [`shutdown`](Self::shutdown). If it is dropped, it ends in the background, and its threads may outlive it for a
/// while.
#[must_use = "a dropped consumer ends: keep it, and end it with `shutdown`"]
pub struct RunningConsumer {
    shared: Arc<Shared>,
    ended: Mutex<mpsc::Receiver<ConsumerReport>>,
}

impl RunningConsumer {
    /// Starts the loop's thread and the workers.
    pub(crate) fn start(options: Options, make_source: MakeSource, make_worker: &MakeWorker) -> Result<Self, String> {
        let shared = Arc::new(Shared::new(Arc::new(options)));
        for _ in 0..shared.options.workers.max(1) {
            let (shared, worker) = (Arc::clone(&shared), make_worker());
            spawn("outbox-worker", move || work(&shared, worker))?;
        }
        let (report, ended) = mpsc::channel();
        let (made, result) = mpsc::channel();
        let (of_loop, lookups) = (Arc::clone(&shared), Lookups::new(Arc::clone(make_worker)));
        spawn("outbox-consumer", move || {
            let _end = EndWorkers(Arc::clone(&of_loop));
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
        let has_panicked = self.shared.has_panicked();
        self.shared.with(|engine| ConsumerStatus {
            partitions: engine.ids().len(),
            unprocessed: engine.rows(),
            running: engine.running(),
            is_database_away: engine.is_database_away(),
            has_panicked,
        })
    }

    /// Ends it: begins no more handlers, waits for those that run, commits, and leaves the group. Blocks for `grace`, and a few
    /// seconds more if the broker does not answer.
    pub fn shutdown(self, grace: Duration) -> ConsumerReport {
        let grace = grace.min(SHUTDOWN_GRACE_MAX);
        self.shared.stop(grace);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match ended.recv_timeout(grace + CONSUMER_CLOSE_TIMEOUT) {
            Ok(report) => report,
            Err(_) => {
                let report = self.shared.with(|engine| ConsumerReport {
                    unprocessed: engine.rows(),
                    running: engine.running(),
                    uncommitted: engine.ids().len(),
                    in_time: false,
                });
                log_event!(CONSUMER_ENDED_EARLY, consumer = &*self.shared.options.consumer, ?report);
                report
            }
        }
    }
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
