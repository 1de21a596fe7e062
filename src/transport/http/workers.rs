//! Sends messages to their hosts. Each host has a few workers, which start when a message waits and end when none does.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Request, Response};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::failure::{FailureKind, HttpFailure};
use super::host::{Host, Job, Worker, report_failure};
use super::hosts::Hosts;
use super::response::drain;
use super::retry_after;
use super::url::Origin;
use crate::clock::system_now;
use crate::limits::{
    HTTP_CHECK_INTERVAL, HTTP_DRAIN_TIMEOUT, HTTP_PROBE_TIMEOUT, HTTP_RESPONSE_BYTES_MAX, RETRY_AFTER_MAX,
};
use crate::retry::{RetryPolicy, retry_wait};
use crate::transport::{FailureClass, Outcome, TransportError};

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) timeout: Duration,
    pub(super) queue_timeout: Duration,
    pub(super) per_host_max: usize,
    pub(super) queue_max: usize,
    pub(super) allows_private: bool,
    pub(super) refusal_retries: RefusalRetries,
}

/// How many refusals a message may get, and how long it waits after each.
#[derive(Debug, Clone)]
pub(super) struct RefusalRetries {
    pub(super) max: u32,
    pub(super) waits: Arc<dyn RetryPolicy>,
}

#[derive(Debug)]
pub(super) struct WorkerPool {
    client: Client,
    pub(super) settings: Settings,
    hosts: Mutex<Hosts>,
    /// The hosts that messages wait for.
    watched: Mutex<Vec<Arc<Host>>>,
    /// Aborted when the pool is dropped.
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    all: JoinSet<()>,
    is_watching: bool,
}

impl WorkerPool {
    pub(super) fn new(client: Client, settings: Settings) -> Arc<Self> {
        Arc::new(Self { client, settings, hosts: Mutex::default(), watched: Mutex::default(), tasks: Mutex::default() })
    }

    pub(super) fn host(&self, origin: &Origin) -> Arc<Host> {
        self.hosts().get(origin, Instant::now())
    }

    /// Accepts a message. `messages_max` is the most that its host may hold.
    pub(super) fn take(self: &Arc<Self>, origin: &Origin, job: Job, messages_max: usize) {
        let (host, now) = (self.host(origin), Instant::now());
        let taken = host.take(job, messages_max, self.settings.per_host_max, now);
        if taken.needs_watching {
            self.watched().push(host);
            self.start_watching();
        }
        if let Some(worker) = taken.worker {
            self.spawn(worker);
        }
    }

    /// Starts the watcher once. The first worker is too late: after a probe, the first message may have to wait for the
    /// end of a pause.
    fn start_watching(self: &Arc<Self>) {
        let mut tasks = self.tasks();
        if !tasks.is_watching {
            tasks.is_watching = true;
            tasks.all.spawn(watch_hosts(Arc::downgrade(self)));
        }
    }

    fn spawn(&self, worker: Worker) {
        let mut tasks = self.tasks();
        // A worker's panic was reported by the panic hook, and its message reports a failure by itself.
        while tasks.all.try_join_next().is_some() {}
        let Settings { timeout, ref refusal_retries, .. } = self.settings;
        let sender = RequestSender { client: self.client.clone(), timeout, refusal_retries: refusal_retries.clone() };
        tasks.all.spawn(sender.work(worker));
    }

    /// Asks a host whether it is up. Nearly any answer counts, also one that refuses the probe or asks for a pause.
    pub(super) async fn probe(&self, origin: &Origin, probe: Request) -> Result<(), TransportError> {
        let probed = timeout(HTTP_PROBE_TIMEOUT, self.client.execute(probe)).await;
        let fails = |class, failure: HttpFailure| Err(failure.into_error(class, None));
        match probed {
            Err(_) => {
                let failure = HttpFailure::TimedOut { origin: Arc::clone(origin), within: HTTP_PROBE_TIMEOUT };
                fails(FailureClass::Connection, failure)
            }
            Ok(Err(error)) => fails(FailureClass::Connection, HttpFailure::from_client(origin, error).1),
            Ok(Ok(response)) => {
                let (host, now) = (self.host(origin), Instant::now());
                let (kind, pause) = classify_response(&response, None);
                if let Some(wait) = pause {
                    host.pause(wait, now);
                }
                let failure = HttpFailure::Status { origin: Arc::clone(origin), status: response.status().as_u16() };
                match kind {
                    FailureKind::Unauthorized if !host.refused_probe_means_up(now) => {
                        fails(FailureClass::Authentication, failure)
                    }
                    FailureKind::NoResponse => fails(FailureClass::Connection, failure),
                    _ => Ok(()),
                }
            }
        }
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Arc<Host>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.hosts().iter().for_each(|host| host.drop_all());
    }
}

/// Watches the waiting messages as long as the pool exists: returns those that waited too long, and starts workers for
/// hosts whose pause is over or whose workers are stuck with an endless answer.
async fn watch_hosts(pool: Weak<WorkerPool>) {
    loop {
        sleep(HTTP_CHECK_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let hosts = std::mem::take(&mut *pool.watched());
        let now = Instant::now();
        for host in hosts {
            host.return_expired(now);
            while let Some(worker) = host.start_worker(pool.settings.per_host_max, now) {
                pool.spawn(worker);
            }
            if host.still_watched() {
                pool.watched().push(host);
            }
        }
    }
}

/// What a worker needs to send. It holds no pool: a worker must not keep its own pool alive.
struct RequestSender {
    client: Client,
    timeout: Duration,
    refusal_retries: RefusalRetries,
}

impl RequestSender {
    async fn work(self, mut worker: Worker) {
        // One timer for all messages: resetting one costs less than making one.
        let mut timer = pin!(sleep(self.timeout));
        while let Some((turn, job)) = worker.next(Instant::now()) {
            // An overflow of the clock leaves the timer where it is, which is just as far away.
            if let Some(ends_at) = Instant::now().checked_add(self.timeout) {
                timer.as_mut().reset(ends_at);
            }
            let response = self.deliver(&worker.host, job, timer.as_mut()).await;
            drop(turn);
            if let Some(response) = response {
                // An answer that lasts longer costs its connection and nothing else.
                let _ = timeout(HTTP_DRAIN_TIMEOUT, drain(response, HTTP_RESPONSE_BYTES_MAX)).await;
            }
        }
    }

    /// Sends one message and reports its outcome. Returns the answer if it was not read to its end.
    async fn deliver(&self, host: &Host, job: Job, timer: Pin<&mut Sleep>) -> Option<Response> {
        let Job { envelope, sender, target, url, scope, queue_deadline: _ } = job;
        let (attempt, declares_content_type) = (envelope.attempt, target.uses_content_type_of(&envelope));
        let request = match target.request(envelope, url) {
            Ok(request) => request,
            Err(failure) => {
                report_failure(sender, failure.into_error(FailureClass::RecordRefused, None));
                return None;
            }
        };
        let exchange = async {
            let mut response = self.client.execute(request).await?;
            let is_success = target.success.accepts(&mut response).await?;
            Ok::<_, reqwest::Error>((response, is_success))
        };
        let origin = || Arc::clone(&host.origin);
        let exchanged = tokio::select! {
            biased;
            exchanged = exchange => Some(exchanged),
            () = timer => None,
        };
        let (kind, failure, pause, response) = match exchanged {
            Some(Ok((response, true))) => {
                host.answered();
                sender.complete(Outcome::Delivered);
                return Some(response);
            }
            Some(Ok((response, false))) => {
                let status = response.status().as_u16();
                let (kind, pause) = match classify_response(&response, target.status_classes.get(&status).copied()) {
                    // A message with another content type may succeed.
                    (FailureKind::NotFound, _) if status == 415 && declares_content_type => {
                        (FailureKind::Refused, None)
                    }
                    judged => judged,
                };
                let failure = match status {
                    200..=299 => HttpFailure::Unsuccessful { origin: origin(), status },
                    _ => HttpFailure::Status { origin: origin(), status },
                };
                (kind, failure, pause, Some(response))
            }
            Some(Err(error)) => {
                let (kind, failure) = HttpFailure::from_client(&host.origin, error);
                (kind, failure, None, None)
            }
            None => {
                let failure = HttpFailure::TimedOut { origin: origin(), within: self.timeout };
                (FailureKind::NoResponse, failure, None, None)
            }
        };
        // Before the outcome, so that whoever receives it finds the outage recorded.
        host.failed(kind, scope, pause, Instant::now());
        let error = failure.into_error(kind.class(scope), pause);
        report_failure(sender, self.with_attempts(error, kind, attempt));
        response
    }

    /// A refused message has its own attempts, unless the user assigned a class to the status.
    fn with_attempts(&self, error: TransportError, kind: FailureKind, attempt: u32) -> TransportError {
        match (kind, error.class()) {
            (FailureKind::Class(_), _) => error,
            (_, FailureClass::Record) => {
                let wait = retry_wait(&*self.refusal_retries.waits, "a receiver by HTTP", attempt);
                error.with_attempts(self.refusal_retries.max, wait)
            }
            _ => error,
        }
    }
}

/// Classifies an answer that is not a success. Returns how long the receiver asks its senders to wait.
fn classify_response(response: &Response, status_classes: Option<FailureClass>) -> (FailureKind, Option<Duration>) {
    let status = response.status().as_u16();
    let by_status = match status {
        200..=299 => FailureKind::Refused,
        _ => FailureKind::of_status(status),
    };
    let kind = status_classes.map_or(by_status, FailureKind::Class);
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let pause = header.and_then(|value| retry_after::parse(value, system_now())).filter(|wait| !wait.is_zero());
    match (kind, pause) {
        // The receiver says when it will be available, so it is up.
        (FailureKind::NoResponse | FailureKind::Class(FailureClass::Temporary), Some(wait)) => {
            (FailureKind::Class(FailureClass::Temporary), Some(wait.min(RETRY_AFTER_MAX)))
        }
        _ => (kind, None),
    }
}
