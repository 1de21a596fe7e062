use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::classify::CallError;
use super::error::DescribedError;
use crate::limits::ROCKETMQ_BROKER_BACK_OFF;
use crate::transport::{FailureClass, TransportError};

/// What is known of the brokers that the used topics are on.
///
/// One of them that is down is no outage: the others' queues take messages. All of them are, and until a topic is known so
/// are the name servers.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Whether there is anything to forget; keeps the lock out of the way of deliveries.
    has_problem: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each broker by name, with what keeps it from answering, and when it did last.
    brokers: HashMap<Arc<str>, Option<(CallError, Instant)>>,
    /// The brokers that each topic was found on last.
    topics: HashMap<Arc<str>, HashSet<Arc<str>>>,
    /// Those of the brokers that the name servers did not list last, and that were not heard since.
    unlisted: HashSet<Arc<str>>,
    names: Option<CallError>,
    /// The client library itself is broken; nothing but another life of it heals that.
    fatal: Option<CallError>,
}

impl Health {
    /// A topic is on these brokers; the name servers said so. A broker that no topic is on any more is forgotten: it would
    /// count as one that takes messages, or as one that is down, for ever.
    pub(super) fn found<'a>(&self, topic: &Arc<str>, brokers: impl Iterator<Item = &'a Arc<str>>) {
        let mut state = self.state();
        state.names = None;
        state.topics.insert(Arc::clone(topic), brokers.map(Arc::clone).collect());
        state.forget_unused();
        self.update_flag(&state);
    }

    /// The name servers know no such topic, or no broker that takes messages for it. The last topic keeps its brokers: without
    /// any, nothing would tell an outage.
    pub(super) fn not_found(&self, topic: &Arc<str>) {
        let mut state = self.state();
        if state.topics.len() > 1 && state.topics.remove(topic).is_some() {
            state.forget_unused();
            self.update_flag(&state);
        }
    }

    /// The name servers list these brokers. One that they do not takes no messages, even where a topic that is seldom used
    /// was on it when that was read last.
    pub(super) fn listed<'a>(&self, listed: impl Iterator<Item = &'a Arc<str>>) {
        let listed: HashSet<&Arc<str>> = listed.collect();
        // A name server that has just begun says nothing of brokers.
        if listed.is_empty() {
            return;
        }
        let mut state = self.state();
        state.unlisted = state.brokers.keys().filter(|broker| !listed.contains(broker)).map(Arc::clone).collect();
    }

    /// A broker answered, whatever it was.
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

    /// A call for a broker failed. Of one that was forgotten meanwhile that says nothing.
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

    /// The name servers gave no answer that says where a topic is.
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

    /// A probe succeeded: everything but the broken client is forgotten, and found again if it is still so.
    pub(super) fn recovered(&self) {
        let mut state = self.state();
        state.names = None;
        state.brokers.values_mut().for_each(|call_error| *call_error = None);
        self.update_flag(&state);
    }

    /// The client library began another life.
    pub(super) fn replaced(&self) {
        let mut state = self.state();
        state.fatal = None;
        self.update_flag(&state);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.has_problem.load(Ordering::Acquire) && self.state().fatal.is_some()
    }

    /// Whether a broker did not answer of late. After a while it is tried again: nothing else shows that it is back.
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
    /// Knows the brokers that topics are on, and no other.
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
        assert!(health.outage().is_none(), "what is known of the topics still holds");
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
        assert!(!health.is_down("b"), "what was left in its queues says nothing");
        health.failed("a", &gone);
        assert!(health.outage().is_some(), "nobody else is there");
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
        assert!(health.outage().is_none(), "it is there all the same");
        health.listed([&c].into_iter());
        health.listed([].into_iter());
        assert!(health.outage().is_some(), "nobody says otherwise");
        health.listed([&b].into_iter());
        assert!(health.outage().is_none(), "it is back");
        health.recovered();
        health.listed([&c].into_iter());
        health.name_server_failed(&gone);
        assert!(health.outage().is_none(), "what is known of the topics still holds");
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
        assert!(health.outage().is_some(), "nobody else is there");
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
