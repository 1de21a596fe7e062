//! The breaker: while the broker is down nothing is claimed, nothing is written, and no attempt is spent.
//!
//! A closed breaker admits everything. An outage opens it. A successful probe makes it half-open: one row is admitted as
//! a trial, and its outcome closes the breaker or opens it again. If a trial has no outcome after a while, another row
//! may try, because the first may wait for its partition only. A caller that is admitted for a trial and sends nothing
//! gives the trial back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::metrics::Gauge;
use tokio::sync::Notify;

use crate::clock::BootInstant;
use crate::events::log_event;
use crate::transport::{FailureClass, Outcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerState {
    Closed,
    Open {
        class: FailureClass,
        since: BootInstant,
    },
    HalfOpen,
    /// Numbered, so that a caller admitted to an earlier trial cannot end this one.
    Trial {
        since: BootInstant,
        number: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    /// The name of the transport.
    transport: Arc<str>,
    is_open: Gauge,
    inner: Mutex<Inner>,
    changed: Notify,
    trial_duration: Duration,
}

#[derive(Debug)]
struct Inner {
    state: BreakerState,
    /// Since when it has not been closed. A broker that answers probes but accepts no message opens it repeatedly; all that
    /// is one outage.
    down_since: Option<BootInstant>,
    /// When the broker last answered a probe in this outage.
    probed_at: Option<BootInstant>,
    /// The last error in this outage.
    error: String,
    /// How many trials there have been.
    trials: u64,
}

impl Inner {
    /// How many of `wanted` rows may be taken, and the number of the trial, if it is one.
    fn admit(&mut self, wanted: usize, now: BootInstant, trial_duration: Duration) -> (usize, Option<u64>) {
        match self.state {
            BreakerState::Closed => (wanted, None),
            BreakerState::Trial { since, .. } if now < since + trial_duration => (0, None),
            BreakerState::HalfOpen | BreakerState::Trial { .. } if wanted > 0 => {
                self.trials += 1;
                self.state = BreakerState::Trial { since: now, number: self.trials };
                (1, Some(self.trials))
            }
            BreakerState::HalfOpen | BreakerState::Trial { .. } | BreakerState::Open { .. } => (0, None),
        }
    }
}

impl Breaker {
    pub(crate) fn new(transport: Arc<str>, is_open: Gauge, trial_duration: Duration) -> Self {
        let (state, error) = (BreakerState::Closed, String::new());
        let inner = Mutex::new(Inner { state, down_since: None, probed_at: None, error, trials: 0 });
        let breaker = Self { transport, is_open, inner, changed: Notify::new(), trial_duration };
        // Set from the start, so that a dashboard shows every transport, not only those that were down once.
        breaker.set_gauge(false);
        breaker
    }

    fn set_gauge(&self, open: bool) {
        self.is_open.set(if open { 1.0 } else { 0.0 });
    }

    /// Says how many of `wanted` rows may be taken now.
    pub(crate) fn admit(&self, wanted: usize, now: BootInstant) -> Admission<'_> {
        let (rows, trial) = self.lock().admit(wanted, now, self.trial_duration);
        Admission { breaker: self, rows, trial }
    }

    /// Gives back a trial that sent nothing, so that the next may start at once.
    fn release_trial(&self, trial: u64) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Trial { number, .. } if number == trial) {
            inner.state = BreakerState::HalfOpen;
            drop(inner);
            self.changed.notify_waiters();
        }
    }

    /// Applies an outcome: an outage opens the breaker, and any other answer of the broker ends a trial.
    pub(crate) fn observe(&self, outcome: &Outcome, now: BootInstant) {
        match outcome {
            Outcome::Failed(error) if error.class().is_outage() => self.open(error.class(), error, now),
            Outcome::Failed(error) if matches!(error.class(), FailureClass::Temporary | FailureClass::Aborted) => {}
            Outcome::Busy => {
                if let BreakerState::Trial { number, .. } = self.state() {
                    self.release_trial(number);
                }
            }
            Outcome::Delivered | Outcome::Failed(_) => self.close_trial(),
        }
    }

    /// Opens the breaker because of `error`, unless it is open.
    pub(crate) fn open(&self, class: FailureClass, error: &dyn fmt::Display, now: BootInstant) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Open { .. }) {
            return;
        }
        // After a successful probe there was nothing to send. A failure long after that is a new outage.
        let trial_began_at = if let BreakerState::Trial { since, .. } = inner.state { since } else { now };
        if inner.probed_at.take().is_some_and(|at| trial_began_at >= at + self.trial_duration) {
            inner.down_since = None;
        }
        let since = *inner.down_since.get_or_insert(now);
        inner.state = BreakerState::Open { class, since };
        inner.error = error.to_string();
        drop(inner);
        let transport = &*self.transport;
        log_event!(TRANSPORT_DOWN, transport, class = class.as_str(), %error);
        self.set_gauge(true);
        self.changed.notify_waiters();
    }

    /// The broker answered a probe.
    pub(crate) fn note_probe_success(&self, now: BootInstant) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Open { .. }) {
            (inner.state, inner.probed_at) = (BreakerState::HalfOpen, Some(now));
            drop(inner);
            self.changed.notify_waiters();
        }
    }

    /// The broker did not answer a probe.
    pub(crate) fn note_error(&self, error: &dyn fmt::Display) {
        self.lock().error = error.to_string();
    }

    /// The last error in this outage.
    pub(crate) fn last_error(&self) -> String {
        self.lock().error.clone()
    }

    fn close_trial(&self) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Trial { .. }) {
            (inner.state, inner.down_since, inner.probed_at) = (BreakerState::Closed, None, None);
            drop(inner);
            log_event!(TRANSPORT_UP, transport = &*self.transport);
            self.set_gauge(false);
            self.changed.notify_waiters();
        }
    }

    /// Waits until the breaker is in a state that `wanted` accepts. Cancel safe.
    pub(crate) async fn wait_for(&self, wanted: impl Fn(BreakerState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if wanted(self.state()) {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn state(&self) -> BreakerState {
        self.lock().state
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many rows may be taken. If this is a trial and is dropped before [`end`](Self::end), by an error, a panic or a
/// cancel, the trial is given back.
#[derive(Debug)]
#[must_use = "dropped at once, a trial is given back"]
pub(crate) struct Admission<'a> {
    breaker: &'a Breaker,
    rows: usize,
    /// The trial to give back.
    trial: Option<u64>,
}

impl Admission<'_> {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Ends the admission. A trial that sent something runs until its outcome; one that sent nothing is given back.
    pub(crate) fn end(mut self, has_sent: bool) {
        if has_sent {
            self.trial = None;
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            self.breaker.release_trial(trial);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::transport::TransportError;

    const START: BootInstant = BootInstant::from_boot(Duration::from_secs(100));

    fn failed(class: FailureClass) -> Outcome {
        Outcome::Failed(TransportError::new(class, std::io::Error::other("as the test says")))
    }

    fn breaker() -> Breaker {
        Breaker::new("default".into(), Gauge::noop(), Duration::from_secs(1))
    }

    fn half_open() -> Breaker {
        let breaker = breaker();
        breaker.observe(&failed(FailureClass::Connection), START);
        breaker.note_probe_success(START);
        breaker
    }

    /// How many of seven rows are sent.
    fn sends(breaker: &Breaker, now: BootInstant) -> usize {
        let admission = breaker.admit(7, now);
        let rows = admission.rows();
        admission.end(rows > 0);
        rows
    }

    #[test]
    fn open_admits_nothing() {
        let breaker = breaker();
        assert_eq!(sends(&breaker, START), 7);
        breaker.observe(&failed(FailureClass::Authentication), START);
        assert_eq!(sends(&breaker, START), 0);
        breaker.observe(&Outcome::Delivered, START);
        assert_eq!(sends(&breaker, START), 0, "a late acknowledgement does not close the breaker");
    }

    #[test]
    fn half_open_admits_one_row_until_its_outcome() {
        let breaker = half_open();
        assert_eq!(sends(&breaker, START), 1);
        assert_eq!(sends(&breaker, START), 0);
        breaker.observe(&Outcome::Delivered, START);
        assert_eq!(sends(&breaker, START), 7);
    }

    #[test]
    fn a_trial_without_outcome_lets_another_try() {
        let breaker = half_open();
        assert_eq!(sends(&breaker, START), 1);
        assert_eq!(sends(&breaker, START + Duration::from_secs(2)), 1);
    }

    #[test]
    fn a_trial_of_nothing_is_given_back() {
        let breaker = half_open();
        breaker.admit(7, START).end(false);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        drop(breaker.admit(7, START));
        assert_eq!(breaker.state(), BreakerState::HalfOpen, "a trial that was dropped is given back");
        assert_eq!(sends(&breaker, START), 1);
    }

    #[test]
    fn a_trial_in_which_something_was_sent_is_kept() {
        let breaker = half_open();
        breaker.admit(7, START).end(true);
        assert_eq!(breaker.state(), BreakerState::Trial { since: START, number: 1 });
        assert_eq!(sends(&breaker, START), 0);
    }

    #[test]
    fn an_admission_gives_back_no_trial_but_its_own() {
        let breaker = half_open();
        let later = START + Duration::from_secs(2);
        let (slow, second) = (breaker.admit(7, START), breaker.admit(7, later));
        assert_eq!((slow.rows(), second.rows()), (1, 1), "the first trial has had its time");
        let state = breaker.state();
        drop(slow);
        assert_eq!(breaker.state(), state);
        drop(second);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn a_trial_of_another_outage_is_another() {
        let breaker = half_open();
        let slow = breaker.admit(7, START);
        breaker.observe(&Outcome::Delivered, START);
        breaker.observe(&failed(FailureClass::Connection), START);
        breaker.note_probe_success(START);
        breaker.admit(7, START).end(true);
        let state = breaker.state();
        slow.end(false);
        assert_eq!(breaker.state(), state);
    }

    #[test]
    fn a_closed_or_open_breaker_admits_no_trial() {
        let breaker = breaker();
        let while_closed = breaker.admit(7, START);
        breaker.observe(&failed(FailureClass::Connection), START);
        let while_open = breaker.admit(7, START);
        assert_eq!((while_closed.rows(), while_open.rows()), (7, 0));
        breaker.note_probe_success(START);
        breaker.admit(7, START).end(true);
        let state = breaker.state();
        drop((while_closed, while_open));
        assert_eq!(breaker.state(), state);
    }

    #[test]
    fn a_client_without_room_gives_the_trial_back() {
        let breaker = half_open();
        assert_eq!(sends(&breaker, START), 1);
        breaker.observe(&Outcome::Busy, START);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_given_back_wakes_those_who_wait_for_its_end() {
        let breaker = half_open();
        let admission = breaker.admit(7, START);
        let mut ended = std::pin::pin!(breaker.wait_for(|state| !matches!(state, BreakerState::Trial { .. })));
        let waiting = timeout(Duration::from_secs(1), ended.as_mut()).await;
        assert!(waiting.is_err(), "the trial still runs");
        drop(admission);
        timeout(Duration::from_secs(1), ended).await.expect("nobody was woken");
    }

    #[test]
    fn a_refused_record_is_an_answer_and_closes() {
        let breaker = half_open();
        breaker.admit(1, START).end(true);
        breaker.observe(&failed(FailureClass::RecordRefused), START);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_failure_long_after_a_probe_is_another_outage() {
        let (class, later) = (FailureClass::Connection, START + Duration::from_secs(3_600));
        let idle = half_open();
        idle.observe(&failed(class), later);
        assert_eq!(idle.state(), BreakerState::Open { class, since: later });
        let tried_late = half_open();
        tried_late.admit(1, later).end(true);
        tried_late.observe(&failed(class), later);
        assert_eq!(tried_late.state(), BreakerState::Open { class, since: later });
    }

    #[test]
    fn an_outage_in_the_trial_opens_again() {
        let breaker = half_open();
        breaker.admit(1, START).end(true);
        let later = START + Duration::from_secs(5);
        let class = FailureClass::Authentication;
        breaker.observe(&failed(class), later);
        assert_eq!(breaker.state(), BreakerState::Open { class, since: START }, "a probe alone does not end an outage");
        breaker.note_probe_success(later);
        breaker.admit(1, later).end(true);
        breaker.observe(&Outcome::Delivered, later);
        breaker.observe(&failed(class), later);
        assert_eq!(breaker.state(), BreakerState::Open { class, since: later });
    }
}
