//! Brings messages to their hosts: a few workers for each, that begin when something waits and end when nothing does.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Request, Response};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::answer::drain;
use super::failure::{HttpFailure, Kind};
use super::host::{Host, Job, Worker, settle};
use super::hosts::Hosts;
use super::retry_after;
use super::url::Origin;
use crate::clock::wall_now;
use crate::limits::{
    HTTP_ANSWER_BYTES_MAX, HTTP_DRAIN_TIMEOUT, HTTP_LOOK_INTERVAL, HTTP_PROBE_TIMEOUT, RETRY_AFTER_MAX,
};
use crate::retry::{RetryPolicy, wait_by};
use crate::transport::{FailureClass, Outcome, TransportError};

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) timeout: Duration,
    pub(super) wait_max: Duration,
    pub(super) per_host_max: usize,
    pub(super) queue_max: usize,
    pub(super) allows_private: bool,
    pub(super) refusals: Refusals,
}

/// How often a message may be refused, and how long it waits in between.
#[derive(Debug, Clone)]
pub(super) struct Refusals {
    pub(super) max: u32,
    pub(super) waits: Arc<dyn RetryPolicy>,
}

#[derive(Debug)]
pub(super) struct Courier {
    client: Client,
    pub(super) settings: Settings,
    hosts: Mutex<Hosts>,
    /// Those that something waits for.
    watched: Mutex<Vec<Arc<Host>>>,
    /// Ended with the courier.
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    all: JoinSet<()>,
    looks: bool,
}

impl Courier {
    pub(super) fn new(client: Client, settings: Settings) -> Arc<Self> {
        Arc::new(Self { client, settings, hosts: Mutex::default(), watched: Mutex::default(), tasks: Mutex::default() })
    }

    pub(super) fn host(&self, origin: &Origin) -> Arc<Host> {
        self.hosts().get(origin, Instant::now())
    }

    /// Takes a message; `messages_max` is what its host may hold.
    pub(super) fn take(self: &Arc<Self>, origin: &Origin, job: Job, messages_max: usize) {
        let (host, now) = (self.host(origin), Instant::now());
        let taken = host.take(job, messages_max, self.settings.per_host_max, now);
        if taken.is_to_be_watched {
            self.watched().push(host);
            self.begin_to_look();
        }
        if let Some(worker) = taken.worker {
            self.spawn(worker);
        }
    }

    /// Once, and not with the first worker: after a probe the first message may have to wait for the end of a pause.
    fn begin_to_look(self: &Arc<Self>) {
        let mut tasks = self.tasks();
        if !tasks.looks {
            tasks.looks = true;
            tasks.all.spawn(look(Arc::downgrade(self)));
        }
    }

    fn spawn(&self, worker: Worker) {
        let mut tasks = self.tasks();
        // A worker that panicked has said so where panics go; its message reports a failure by itself.
        while tasks.all.try_join_next().is_some() {}
        let Settings { timeout, ref refusals, .. } = self.settings;
        let sender = Sender { client: self.client.clone(), timeout, refusals: refusals.clone() };
        tasks.all.spawn(sender.work(worker));
    }

    /// Asks a host whether it is there. Nearly any answer says so, also one of a receiver that lets no probe in, or that says
    /// when it takes messages again.
    pub(super) async fn probe(&self, origin: &Origin, probe: Request) -> Result<(), TransportError> {
        let asked = timeout(HTTP_PROBE_TIMEOUT, self.client.execute(probe)).await;
        let fails = |class, failure: HttpFailure| Err(failure.into_error(class, None));
        match asked {
            Err(_) => {
                let failure = HttpFailure::TimedOut { origin: Arc::clone(origin), within: HTTP_PROBE_TIMEOUT };
                fails(FailureClass::Connection, failure)
            }
            Ok(Err(error)) => fails(FailureClass::Connection, HttpFailure::of_client(origin, error).1),
            Ok(Ok(response)) => {
                let (host, now) = (self.host(origin), Instant::now());
                let (kind, pause) = judge(&response, None);
                if let Some(wait) = pause {
                    host.pause(wait, now);
                }
                let failure = HttpFailure::Status { origin: Arc::clone(origin), status: response.status().as_u16() };
                match kind {
                    Kind::NotLetIn if !host.is_proven_by_a_refusal(now) => fails(FailureClass::Authentication, failure),
                    Kind::NoAnswer => fails(FailureClass::Connection, failure),
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

impl Drop for Courier {
    fn drop(&mut self) {
        self.hosts().iter().for_each(|host| host.forget_all());
    }
}

/// Looks after what waits, as long as there is a courier: what has waited too long goes back, and hosts whose pause is over,
/// or whose workers are busy with an answer that does not end, get workers.
async fn look(courier: Weak<Courier>) {
    loop {
        sleep(HTTP_LOOK_INTERVAL).await;
        let Some(courier) = courier.upgrade() else { return };
        let hosts = std::mem::take(&mut *courier.watched());
        let now = Instant::now();
        for host in hosts {
            host.give_back_late(now);
            while let Some(worker) = host.enter(courier.settings.per_host_max, now) {
                courier.spawn(worker);
            }
            if host.stays_watched() {
                courier.watched().push(host);
            }
        }
    }
}

/// What a worker needs to send. Not the courier: workers must not keep alive what ends them.
struct Sender {
    client: Client,
    timeout: Duration,
    refusals: Refusals,
}

impl Sender {
    async fn work(self, mut worker: Worker) {
        // One for all its messages: to put a timer off costs less than to set one.
        let mut timer = pin!(sleep(self.timeout));
        while let Some((turn, job)) = worker.next(Instant::now()) {
            // Beyond the clock's end it stays where it is: as far away.
            if let Some(ends_at) = Instant::now().checked_add(self.timeout) {
                timer.as_mut().reset(ends_at);
            }
            let answer = self.deliver(&worker.host, job, timer.as_mut()).await;
            drop(turn);
            if let Some(answer) = answer {
                // An answer that goes on for longer costs its connection and nothing else.
                let _ = timeout(HTTP_DRAIN_TIMEOUT, drain(answer, HTTP_ANSWER_BYTES_MAX)).await;
            }
        }
    }

    /// Sends one message and reports what became of it; returns an answer that was not read to its end.
    async fn deliver(&self, host: &Host, job: Job, timer: Pin<&mut Sleep>) -> Option<Response> {
        let Job { envelope, receipt, target, url, scope, waits_until: _ } = job;
        let (attempt, says_its_type) = (envelope.attempt, target.takes_type_of(&envelope));
        let request = match target.request(envelope, url) {
            Ok(request) => request,
            Err(failure) => {
                settle(receipt, failure.into_error(FailureClass::RecordRefused, None));
                return None;
            }
        };
        let exchange = async {
            let mut response = self.client.execute(request).await?;
            let is_success = target.success.is_met(&mut response).await?;
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
                receipt.settle(Outcome::Delivered);
                return Some(response);
            }
            Some(Ok((response, false))) => {
                let status = response.status().as_u16();
                let (kind, pause) = match judge(&response, target.treated.get(&status).copied()) {
                    // Another message has another type.
                    (Kind::NotThere, _) if status == 415 && says_its_type => (Kind::Refused, None),
                    judged => judged,
                };
                let failure = match status {
                    200..=299 => HttpFailure::Unsuccessful { origin: origin(), status },
                    _ => HttpFailure::Status { origin: origin(), status },
                };
                (kind, failure, pause, Some(response))
            }
            Some(Err(error)) => {
                let (kind, failure) = HttpFailure::of_client(&host.origin, error);
                (kind, failure, None, None)
            }
            None => {
                let failure = HttpFailure::TimedOut { origin: origin(), within: self.timeout };
                (Kind::NoAnswer, failure, None, None)
            }
        };
        // Before the outcome: whoever hears it and asks finds the outage known.
        host.failed(kind, scope, pause, Instant::now());
        let error = failure.into_error(kind.class(scope), pause);
        settle(receipt, self.with_attempts(error, kind, attempt));
        response
    }

    /// A message that the receiver refuses has attempts of its own, but for a status that was told to be otherwise.
    fn with_attempts(&self, error: TransportError, kind: Kind, attempt: u32) -> TransportError {
        match (kind, error.class()) {
            (Kind::Of(_), _) => error,
            (_, FailureClass::Record) => {
                let wait = wait_by(&*self.refusals.waits, "a receiver by HTTP", attempt);
                error.with_attempts(self.refusals.max, wait)
            }
            _ => error,
        }
    }
}

/// What an answer that is no success says, and for how long the receiver asks to be left alone.
fn judge(response: &Response, treated: Option<FailureClass>) -> (Kind, Option<Duration>) {
    let status = response.status().as_u16();
    let by_status = match status {
        200..=299 => Kind::Refused,
        _ => Kind::of_status(status),
    };
    let kind = treated.map_or(by_status, Kind::Of);
    let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let pause = asked.and_then(|value| retry_after::parse(value, wall_now())).filter(|wait| !wait.is_zero());
    match (kind, pause) {
        // It says when it will be there, so it is there.
        (Kind::NoAnswer | Kind::Of(FailureClass::Temporary), Some(wait)) => {
            (Kind::Of(FailureClass::Temporary), Some(wait.min(RETRY_AFTER_MAX)))
        }
        _ => (kind, None),
    }
}
