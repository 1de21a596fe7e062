//! One host: its waiting messages, its requests in flight, and its health.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;

use super::failure::{FailureKind, HttpFailure, Scope};
use super::health::{Admission, Health};
use super::keyed_queue::{Key, KeyedQueue};
use super::prepared::PreparedTarget;
use super::url::Origin;
use crate::limits::HTTP_HOST_BACK_OFF_MIN;
use crate::message::Envelope;
use crate::transport::{FailureClass, Outcome, OutcomeSender, TransportError};

/// A message to send.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) envelope: Envelope,
    pub(super) sender: OutcomeSender,
    pub(super) target: Arc<PreparedTarget>,
    pub(super) url: Url,
    pub(super) scope: Scope,
    /// When the message is returned if it is still waiting; never, if that time is beyond the clock's end.
    pub(super) queue_deadline: Option<Instant>,
}

impl Job {
    /// Whether the message is returned before a pause that begins now is over.
    fn expires_within(&self, pause: Duration, now: Instant) -> bool {
        self.queue_deadline.is_some_and(|until| until.saturating_duration_since(now) < pause)
    }
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) origin: Origin,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: KeyedQueue<Job>,
    /// Messages in flight.
    in_flight: usize,
    workers: usize,
    /// Whether the watcher has this host in its list.
    is_watched: bool,
    health: Health,
}

/// What the caller has to do for an accepted message.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// A worker to run. It sends this message, or an earlier one.
    pub(super) worker: Option<Worker>,
    /// Whether the host must be added to the watched hosts.
    pub(super) needs_watching: bool,
}

/// Why a host refuses a message now.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Down(FailureClass, Duration),
    Paused(Duration),
    Full,
}

impl Host {
    pub(super) fn new(origin: Origin) -> Arc<Self> {
        Arc::new(Self { origin, hasher: RandomState::new(), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message, or refuses it at once. A pause that the message can outwait is no reason to refuse it.
    pub(super) fn take(self: &Arc<Self>, job: Job, messages_max: usize, workers_max: usize, now: Instant) -> Accepted {
        let refusal = {
            let mut state = self.state();
            let refusal = match state.health.admit(now) {
                Admission::Down(wait) => {
                    let class = state.health.outage().unwrap_or(FailureClass::Connection);
                    Some(Refusal::Down(class, wait))
                }
                Admission::Paused(wait) if job.expires_within(wait, now) => Some(Refusal::Paused(wait)),
                _ if state.queue.waiting() + state.in_flight >= messages_max => Some(Refusal::Full),
                Admission::Allowed | Admission::Paused(_) => None,
            };
            let Some(refusal) = refusal else {
                let key = job.envelope.key.as_ref().map(|key| self.hasher.hash_one((&*job.envelope.topic, key)));
                state.queue.push(key, job);
                let worker = self.start_worker_locked(&mut state, workers_max, now);
                let needs_watching = !std::mem::replace(&mut state.is_watched, true);
                return Accepted { worker, needs_watching };
            };
            refusal
        };
        self.refuse(job, refusal);
        Accepted::default()
    }

    /// Starts another worker if it would have something to do.
    pub(super) fn start_worker(self: &Arc<Self>, workers_max: usize, now: Instant) -> Option<Worker> {
        self.start_worker_locked(&mut self.state(), workers_max, now)
    }

    fn start_worker_locked(self: &Arc<Self>, state: &mut State, workers_max: usize, now: Instant) -> Option<Worker> {
        // Also while the host is down: each message that tries it was admitted one by one.
        let may_go = state.health.paused_for(now).is_zero();
        if !may_go || !state.queue.has_ready() || state.workers >= workers_max {
            return None;
        }
        state.workers += 1;
        Some(Worker { host: Arc::clone(self), is_counted: true })
    }

    pub(super) fn answered(&self) {
        self.state().health.answered();
    }

    pub(super) fn probed(&self) {
        self.state().health.probed();
    }

    /// Whether a refused probe proves that the host is back.
    pub(super) fn refused_probe_means_up(&self, now: Instant) -> bool {
        self.state().health.refused_probe_means_up(now)
    }

    /// Records a failure. If the host is down, or paused for longer than a message can wait, its waiting messages are
    /// refused, so that they need not find out by themselves.
    pub(super) fn failed(&self, kind: FailureKind, scope: Scope, pause: Option<Duration>, now: Instant) {
        let refused_jobs = {
            let mut state = self.state();
            let is_down = state.health.failed(kind, scope, now);
            if let Some(wait) = pause {
                state.health.pause(wait, now);
            }
            match (is_down, pause) {
                (true, _) => {
                    let class = state.health.outage().unwrap_or(FailureClass::Connection);
                    let wait = state.health.paused_for(now).max(HTTP_HOST_BACK_OFF_MIN);
                    let jobs = state.queue.drain_where(|_| true);
                    Some((jobs, Refusal::Down(class, wait)))
                }
                (false, Some(wait)) => {
                    let jobs = state.queue.drain_where(|job| job.expires_within(wait, now));
                    Some((jobs, Refusal::Paused(wait)))
                }
                (false, None) => None,
            }
        };
        if let Some((jobs, refusal)) = refused_jobs {
            jobs.into_iter().for_each(|job| self.refuse(job, refusal));
        }
    }

    /// A probe's answer asked for a pause: messages that cannot wait for so long are refused.
    pub(super) fn pause(&self, wait: Duration, now: Instant) {
        let refused_jobs = {
            let mut state = self.state();
            state.health.pause(wait, now);
            state.queue.drain_where(|job| job.expires_within(wait, now))
        };
        refused_jobs.into_iter().for_each(|job| self.refuse(job, Refusal::Paused(wait)));
    }

    /// Why no probe is sent: the host asked for a pause that is not over.
    pub(super) fn probe_refusal(&self, now: Instant) -> Option<TransportError> {
        let (class, wait) = {
            let state = self.state();
            (state.health.outage()?, state.health.paused_for(now))
        };
        let failure = HttpFailure::HostPaused { origin: Arc::clone(&self.origin), wait };
        (!wait.is_zero()).then(|| failure.into_error(class, None))
    }

    /// Returns messages that waited too long. They were not sent, and nothing is written for them.
    pub(super) fn return_expired(&self, now: Instant) {
        let late = self.state().queue.drain_where(|job| job.queue_deadline.is_some_and(|until| now >= until));
        late.into_iter().for_each(|job| job.sender.complete(Outcome::Busy));
    }

    /// Drops everything that waits: each outcome sender then reports a failure by itself.
    pub(super) fn drop_all(&self) {
        let forgotten = self.state().queue.drain_where(|_| true);
        drop(forgotten);
    }

    pub(super) fn outage(&self) -> Option<FailureClass> {
        self.state().health.outage()
    }

    /// Whether a message may be sent to the host.
    pub(super) fn is_pause_over(&self, now: Instant) -> bool {
        self.state().health.is_pause_over(now)
    }

    /// Whether messages still wait here. If not, the host is no longer watched.
    pub(super) fn still_watched(&self) -> bool {
        let mut state = self.state();
        state.is_watched = state.queue.waiting() > 0;
        state.is_watched
    }

    fn refuse(&self, job: Job, refusal: Refusal) {
        let origin = Arc::clone(&self.origin);
        let error = match refusal {
            Refusal::Down(class, wait) => {
                let is_all = job.scope == Scope::Transport;
                let class = if is_all { class } else { FailureKind::Unreachable.class(job.scope) };
                HttpFailure::HostDown { origin }.into_error(class, (!is_all).then_some(wait))
            }
            Refusal::Paused(wait) => {
                HttpFailure::HostPaused { origin, wait }.into_error(FailureKind::Paused.class(job.scope), Some(wait))
            }
            Refusal::Full => {
                HttpFailure::HostFull { origin }.into_error(FailureClass::Temporary, Some(HTTP_HOST_BACK_OFF_MIN))
            }
        };
        report_failure(job.sender, error);
    }
}

pub(super) fn report_failure(sender: OutcomeSender, error: TransportError) {
    sender.complete(Outcome::Failed(error));
}

/// A worker: sends to its host, one message after the other.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) host: Arc<Host>,
    is_counted: bool,
}

impl Worker {
    /// The next message; `None` if there is none, and then the worker has left.
    pub(super) fn next(&mut self, now: Instant) -> Option<(InFlightSlot, Job)> {
        let mut state = self.host.state();
        let may_go = state.health.paused_for(now).is_zero();
        match if may_go { state.queue.next() } else { None } {
            Some((key, job)) => {
                state.in_flight += 1;
                Some((InFlightSlot { host: Arc::clone(&self.host), key }, job))
            }
            None => {
                // Under the same lock that found the queue empty: the next message starts another worker.
                state.workers -= 1;
                self.is_counted = false;
                None
            }
        }
    }
}

/// A panic in a user's callback ended the worker.
impl Drop for Worker {
    fn drop(&mut self) {
        if self.is_counted {
            self.host.state().workers -= 1;
        }
    }
}

/// A message in flight. When it is dropped, the next message of its key may go.
#[derive(Debug)]
pub(super) struct InFlightSlot {
    host: Arc<Host>,
    key: Option<Key>,
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        let mut state = self.host.state();
        state.in_flight -= 1;
        if let Some(key) = self.key.take() {
            state.queue.finish_key(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_down_host_is_not_probed_during_its_pause() {
        const PAUSE: Duration = Duration::from_secs(120);
        let (host, now) = (Host::new("http://shop.example".into()), Instant::now());
        host.pause(PAUSE, now);
        assert!(host.probe_refusal(now).is_none(), "the host is up");
        host.failed(FailureKind::Unreachable, Scope::Transport, None, now);
        let refused = |after: Duration| host.probe_refusal(now + after).map(|error| error.class());
        for after in [Duration::ZERO, PAUSE - Duration::from_millis(1)] {
            assert_eq!(refused(after), Some(FailureClass::Connection));
        }
        assert_eq!(refused(PAUSE), None);
    }
}
