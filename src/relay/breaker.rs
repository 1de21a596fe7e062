//! The breaker: while the broker is down nothing is claimed, nothing is written, and no attempt is spent.
//!
//! Closed, it admits everything. An outage opens it. A probe that the broker answers makes it half-open: one row is
//! admitted as a trial, and that row's outcome closes it or opens it again. A trial without outcome does not block: after
//! a while another row may try, because the first may wait for a partition of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::metrics::Gauge;
use tokio::sync::Notify;

use crate::clock::BootInstant;
use crate::transport::{FailureClass, Outcome};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerState {
    Closed,
    Open { class: FailureClass, since: BootInstant },
    HalfOpen,
    Trial { since: BootInstant },
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
    /// Since when it was not closed. A broker that answers probes and takes nothing opens it again and again: all that is one outage.
    down_since: Option<BootInstant>,
    /// When it last answered a probe, in that outage.
    answered_at: Option<BootInstant>,
}

impl Inner {
    const CLOSED: Self = Self { state: BreakerState::Closed, down_since: None, answered_at: None };
}

impl Breaker {
    pub(crate) fn new(transport: Arc<str>, is_open: Gauge, trial_duration: Duration) -> Self {
        let inner = Mutex::new(Inner::CLOSED);
        let breaker = Self { transport, is_open, inner, changed: Notify::new(), trial_duration };
        // From the start, so that a dashboard shows every transport and not only those that were down once.
        breaker.show(false);
        breaker
    }

    fn show(&self, open: bool) {
        self.is_open.set(if open { 1.0 } else { 0.0 });
    }

    /// How many of `wanted` rows may be taken now. Whoever is admitted one row for a trial and finds none says so with
    /// [`trial_unused`](Self::trial_unused).
    pub(crate) fn admit(&self, wanted: usize, now: BootInstant) -> usize {
        let state = &mut self.lock().state;
        match *state {
            BreakerState::Closed => wanted,
            BreakerState::Trial { since } if now < since + self.trial_duration => 0,
            BreakerState::HalfOpen | BreakerState::Trial { .. } if wanted > 0 => {
                *state = BreakerState::Trial { since: now };
                1
            }
            BreakerState::HalfOpen | BreakerState::Trial { .. } | BreakerState::Open { .. } => 0,
        }
    }

    /// No row was there to try.
    pub(crate) fn trial_unused(&self) {
        let state = &mut self.lock().state;
        if matches!(*state, BreakerState::Trial { .. }) {
            *state = BreakerState::HalfOpen;
        }
    }

    /// Learns from an outcome: an outage opens, and what a broker answered closes a trial.
    pub(crate) fn observe(&self, outcome: &Outcome, now: BootInstant) {
        match outcome {
            Outcome::Failed(error) if error.class().is_outage() => self.open(error.class(), now),
            Outcome::Failed(error) if matches!(error.class(), FailureClass::Temporary | FailureClass::Aborted) => {}
            Outcome::Busy => self.trial_unused(),
            Outcome::Delivered | Outcome::Failed(_) => self.close_trial(),
        }
    }

    /// Opens; says whether it was not open before.
    pub(crate) fn open(&self, class: FailureClass, now: BootInstant) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Open { .. }) {
            return;
        }
        // It answered, and nobody had anything for it: what goes wrong so much later is another outage.
        let tried_at = if let BreakerState::Trial { since } = inner.state { since } else { now };
        if inner.answered_at.take().is_some_and(|at| tried_at >= at + self.trial_duration) {
            inner.down_since = None;
        }
        let since = *inner.down_since.get_or_insert(now);
        inner.state = BreakerState::Open { class, since };
        drop(inner);
        let transport = &*self.transport;
        tracing::warn!(transport, class = class.as_str(), "the transport is down: nothing is claimed until it answers");
        self.show(true);
        self.changed.notify_waiters();
    }

    /// The broker answered a probe.
    pub(crate) fn probed(&self, now: BootInstant) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Open { .. }) {
            (inner.state, inner.answered_at) = (BreakerState::HalfOpen, Some(now));
            drop(inner);
            self.changed.notify_waiters();
        }
    }

    fn close_trial(&self) {
        let mut inner = self.lock();
        if matches!(inner.state, BreakerState::Trial { .. }) {
            *inner = Inner::CLOSED;
            drop(inner);
            tracing::info!(transport = &*self.transport, "the transport is back");
            self.show(false);
            self.changed.notify_waiters();
        }
    }

    /// Waits until the breaker is in a state that `wanted` accepts. Cancel safe.
    pub(crate) async fn until(&self, wanted: impl Fn(BreakerState) -> bool) {
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

#[cfg(test)]
mod tests {
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
        breaker.probed(START);
        breaker
    }

    #[test]
    fn open_admits_nothing() {
        let breaker = breaker();
        assert_eq!(breaker.admit(7, START), 7);
        breaker.observe(&failed(FailureClass::Authentication), START);
        assert_eq!(breaker.admit(7, START), 0);
        breaker.observe(&Outcome::Delivered, START);
        assert_eq!(breaker.admit(7, START), 0, "a late acknowledgement is no sign of life");
    }

    #[test]
    fn half_open_admits_one_row_until_its_outcome() {
        let breaker = half_open();
        assert_eq!(breaker.admit(7, START), 1);
        assert_eq!(breaker.admit(7, START), 0);
        breaker.observe(&Outcome::Delivered, START);
        assert_eq!(breaker.admit(7, START), 7);
    }

    #[test]
    fn a_trial_without_outcome_lets_another_try() {
        let breaker = half_open();
        assert_eq!(breaker.admit(7, START), 1);
        assert_eq!(breaker.admit(7, START + Duration::from_secs(2)), 1);
    }

    #[test]
    fn an_unused_trial_is_given_back() {
        let breaker = half_open();
        assert_eq!(breaker.admit(7, START), 1);
        breaker.trial_unused();
        assert_eq!(breaker.admit(7, START), 1);
    }

    #[test]
    fn a_refused_record_is_an_answer_and_closes() {
        let breaker = half_open();
        breaker.admit(1, START);
        breaker.observe(&failed(FailureClass::RecordRefused), START);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn what_goes_wrong_long_after_an_answer_is_another_outage() {
        let (class, later) = (FailureClass::Connection, START + Duration::from_secs(3_600));
        let idle = half_open();
        idle.observe(&failed(class), later);
        assert_eq!(idle.state(), BreakerState::Open { class, since: later });
        let tried_late = half_open();
        tried_late.admit(1, later);
        tried_late.observe(&failed(class), later);
        assert_eq!(tried_late.state(), BreakerState::Open { class, since: later });
    }

    #[test]
    fn an_outage_in_the_trial_opens_again() {
        let breaker = half_open();
        breaker.admit(1, START);
        let later = START + Duration::from_secs(5);
        let class = FailureClass::Authentication;
        breaker.observe(&failed(class), later);
        assert_eq!(breaker.state(), BreakerState::Open { class, since: START }, "a probe alone is no end of an outage");
        breaker.probed(later);
        breaker.admit(1, later);
        breaker.observe(&Outcome::Delivered, later);
        breaker.observe(&failed(class), later);
        assert_eq!(breaker.state(), BreakerState::Open { class, since: later });
    }
}
