use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::classify::CallError;
use super::error::DescribedError;
use crate::limits::ROCKETMQ_BROKER_BACK_OFF;
use crate::transport::{FailureClass, TransportError};

/// The health of the brokers that hold the used topics.
///
/// One broker that is down is no outage: the others' queues accept messages. It is an outage if all are down. Until a
/// topic is found, the name servers count as well.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Whether there is a problem to clear; keeps the lock out of the delivery path.
    has_problem: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each broker by name, with its last failure and when that happened.
    brokers: HashMap<Arc<str>, Option<(CallError, Instant)>>,
    /// The brokers on which each topic was last found.
    topics: HashMap<Arc<str>, HashSet<Arc<str>>>,
    /// Brokers that the name servers no longer list, and that have not answered since.
    unlisted: HashSet<Arc<str>>,
    names: Option<CallError>,
    /// The client library itself failed; only a new connection helps.
    fatal: Option<CallError>,
}

impl Health {
    /// Records the name servers' answer that a topic is on these brokers. A broker without topics is forgotten:
    /// otherwise it would count as up, or as down, for ever.
    pub(super) fn found<'a>(&self, topic: &Arc<str>, brokers: impl Iterator<Item = &'a Arc<str>>) {
        let mut state = self.state();
        state.names = None;
        state.topics.insert(Arc::clone(topic), brokers.map(Arc::clone).collect());
        state.forget_unused();
        self.update_flag(&state);
    }

    /// The name servers know no such topic, or no writable broker for it. The last topic keeps its brokers: without
    /// any, no outage could be detected.
    pub(super) fn not_found(&self, topic: &Arc<str>) {
        let mut state = self.state();
        if state.topics.len() > 1 && state.topics.remove(topic).is_some() {
            state.forget_unused();
            self.update_flag(&state);
        }
    }

    /// The name servers list these brokers. A broker that is not listed accepts no messages, even if a rarely used
    /// topic was last found on it.
    pub(super) fn listed<'a>(&self, listed: impl Iterator<Item = &'a Arc<str>>) {
        let listed: HashSet<&Arc<str>> = listed.collect();
        // A name server that has just started lists no brokers.
        if listed.is_empty() {
            return;
        }
        let mut state = self.state();
        state.unlisted = state.brokers.keys().filter(|broker| !listed.contains(broker)).map(Arc::clone).collect();
    }

    /// Records an answer of a broker, whatever it was.
    pub(super) fn answered(&self, broker: &str) {
        if self.has_problem.load(Ordering::Acquire) {
            let mut state = self.state();
            state.unlisted.remove(broker);
            if let Some(call_error) = state.brokers.get_mut(broker) {
                *call_error = None;
            }
            self.update_flag(&state);
        }
    }

    /// A call to a broker failed. For a forgotten broker that says nothing.
    pub(super) fn failed(&self, broker: &str, call_error: &CallError) {
        if call_error.class.is_outage() {
            let mut state = self.state();
            match call_error.class {
                FailureClass::Fatal => state.fatal = Some(call_error.clone()),
                _ => {
                    if let Some(known) = state.brokers.get_mut(broker) {
                        *known = Some((call_error.clone(), Instant::now()));
                    }
                }
            }
            self.update_flag(&state);
        }
    }

    /// The name servers gave no answer that locates a topic.
    pub(super) fn name_server_failed(&self, call_error: &CallError) {
        if call_error.class.is_outage() {
            let mut state = self.state();
            match call_error.class {
                FailureClass::Fatal => state.fatal = Some(call_error.clone()),
                _ => state.names = Some(call_error.clone()),
            }
            self.update_flag(&state);
        }
    }

    /// A probe succeeded: clears everything but a failed client. Problems that remain show up again.
    pub(super) fn recovered(&self) {
        let mut state = self.state();
        state.names = None;
        state.brokers.values_mut().for_each(|call_error| *call_error = None);
        self.update_flag(&state);
    }

    /// The client library was restarted.
    pub(super) fn replaced(&self) {
        let mut state = self.state();
        state.fatal = None;
        self.update_flag(&state);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.has_problem.load(Ordering::Acquire) && self.state().fatal.is_some()
    }

    /// Whether a broker failed to answer recently. After a while it is tried again: nothing else shows that it is back.
    pub(super) fn is_down(&self, broker: &str) -> bool {
        let of_late = |(_, at): &(CallError, Instant)| at.elapsed() < ROCKETMQ_BROKER_BACK_OFF;
        self.has_problem.load(Ordering::Acquire)
            && self.state().brokers.get(broker).is_some_and(|call_error| call_error.as_ref().is_some_and(of_late))
    }

    /// Why nothing should be handed to the client now.
    pub(super) fn outage(&self) -> Option<TransportError> {
        if !self.has_problem.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state();
        let mut brokers = state.brokers.iter();
        let is_lost = brokers.all(|(broker, call_error)| call_error.is_some() || state.unlisted.contains(broker));
        let down = state.brokers.values().flatten().map(|(call_error, _)| call_error).next().filter(|_| is_lost);
        let lost = down.or(state.names.as_ref().filter(|_| state.brokers.is_empty()));
        let call_error = state.fatal.as_ref().or(lost)?;
        Some(TransportError::new(call_error.class, DescribedError(Arc::clone(&call_error.text))))
    }

    fn update_flag(&self, state: &State) {
        let has_problem = state.fatal.is_some() || state.names.is_some() || state.brokers.values().any(Option::is_some);
        self.has_problem.store(has_problem, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps only the brokers that topics are on.
    fn forget_unused(&mut self) {
        let used: HashSet<&Arc<str>> = self.topics.values().flatten().collect();
        self.brokers.retain(|broker, _| used.contains(broker));
        for broker in used {
            self.brokers.entry(Arc::clone(broker)).or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_needs_every_broker_to_be_down() {
        let (health, [orders, a, b]) = (Health::default(), ["orders", "a", "b"].map(Arc::<str>::from));
        let gone = CallError::new(FailureClass::Connection, "gone");
        health.name_server_failed(&gone);
        assert!(health.outage().is_some(), "no topic can be found");
        health.found(&orders, [&a, &b].into_iter());
        assert!(health.outage().is_none());
        health.failed("a", &gone);
        assert!(health.outage().is_none() && health.is_down("a") && !health.is_down("b"));
        health.name_server_failed(&gone);
        assert!(health.outage().is_none(), "the known topics still count");
        health.failed("b", &CallError::new(FailureClass::Temporary, "slow"));
        assert!(health.outage().is_none());
        health.failed("b", &gone);
        assert_eq!(health.outage().map(|outage| outage.class()), Some(FailureClass::Connection));
        health.answered("b");
        assert!(health.outage().is_none());
        health.recovered();
        assert!(!health.is_down("a"));
    }

    #[test]
    fn a_broker_without_topics_is_removed() {
        let (health, [orders, bills]) = (Health::default(), ["orders", "bills"].map(Arc::<str>::from));
        let ([a, b], gone) = (["a", "b"].map(Arc::<str>::from), CallError::new(FailureClass::Connection, "gone"));
        health.found(&orders, [&a, &b].into_iter());
        health.found(&bills, [&b].into_iter());
        health.failed("b", &gone);
        health.found(&orders, [&a].into_iter());
        assert!(health.is_down("b"), "another topic is on it");
        health.found(&bills, [&a].into_iter());
        assert!(!health.is_down("b"));
        health.failed("b", &gone);
        assert!(!health.is_down("b"), "a late failure of a forgotten broker does not count");
        health.failed("a", &gone);
        assert!(health.outage().is_some(), "no other broker is left");
        health.found(&orders, [&b].into_iter());
        assert!(health.outage().is_none() && health.is_down("a"));
    }

    #[test]
    fn a_removed_broker_does_not_hide_an_outage() {
        let (health, [orders, audit]) = (Health::default(), ["orders", "audit"].map(Arc::<str>::from));
        let ([a, b, c], gone) =
            (["a", "b", "c"].map(Arc::<str>::from), CallError::new(FailureClass::Connection, "gone"));
        health.found(&audit, [&a, &b].into_iter());
        health.listed([&a, &c].into_iter());
        health.found(&orders, [&a].into_iter());
        assert!(health.outage().is_none());
        health.failed("a", &gone);
        assert!(health.outage().is_some(), "b left, and no topic is on c");
        health.answered("b");
        assert!(health.outage().is_none(), "the broker answers although it is unlisted");
        health.listed([&c].into_iter());
        health.listed([].into_iter());
        assert!(health.outage().is_some(), "no name server lists a broker");
        health.listed([&b].into_iter());
        assert!(health.outage().is_none(), "the broker is back");
        health.recovered();
        health.listed([&c].into_iter());
        health.name_server_failed(&gone);
        assert!(health.outage().is_none(), "the known topics still count");
    }

    #[test]
    fn a_deleted_topic_keeps_no_broker() {
        let (health, [orders, audit]) = (Health::default(), ["orders", "audit"].map(Arc::<str>::from));
        let ([a, b], gone) = (["a", "b"].map(Arc::<str>::from), CallError::new(FailureClass::Connection, "gone"));
        health.found(&audit, [&a, &b].into_iter());
        health.found(&orders, [&a].into_iter());
        health.failed("a", &gone);
        assert!(health.outage().is_none(), "b may take messages of audit");
        health.not_found(&audit);
        assert!(health.outage().is_some());
        health.not_found(&orders);
        assert!(health.outage().is_some(), "no other broker is left");
    }

    #[test]
    fn a_broken_client_stays_broken_until_it_is_replaced() {
        let health = Health::default();
        health.failed("a", &CallError::panicked());
        health.recovered();
        assert_eq!(health.outage().map(|outage| outage.class()), Some(FailureClass::Fatal));
        health.replaced();
        assert!(health.outage().is_none());
    }
}
