use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::classify::Trouble;
use super::error::Said;
use crate::limits::ROCKETMQ_BROKER_REST;
use crate::transport::{FailureClass, TransportError};

/// What is known of the brokers that the used topics are on.
///
/// One of them that is down is no outage: the others' queues take messages. All of them are, and until a topic is known so
/// are the name servers.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Whether there is anything to forget; keeps the lock out of the way of deliveries.
    troubled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each broker by name, with what keeps it from answering, and when it did last.
    brokers: HashMap<Arc<str>, Option<(Trouble, Instant)>>,
    /// The brokers that each topic was found on last.
    topics: HashMap<Arc<str>, HashSet<Arc<str>>>,
    names: Option<Trouble>,
    /// The client library itself is broken; nothing but another life of it heals that.
    fatal: Option<Trouble>,
}

impl Health {
    /// A topic is on these brokers; the name servers said so. A broker that no topic is on any more is forgotten: it would
    /// count as one that takes messages, or as one that is down, for ever.
    pub(super) fn found<'a>(&self, topic: &Arc<str>, brokers: impl Iterator<Item = &'a Arc<str>>) {
        let mut state = self.state();
        state.names = None;
        state.topics.insert(Arc::clone(topic), brokers.map(Arc::clone).collect());
        let State { brokers, topics, .. } = &mut *state;
        let used: HashSet<&Arc<str>> = topics.values().flatten().collect();
        brokers.retain(|broker, _| used.contains(broker));
        for broker in used {
            brokers.entry(Arc::clone(broker)).or_default();
        }
        self.keep(&state);
    }

    /// A broker answered, whatever it was.
    pub(super) fn answered(&self, broker: &str) {
        if self.troubled.load(Ordering::Acquire) {
            let mut state = self.state();
            if let Some(trouble) = state.brokers.get_mut(broker) {
                *trouble = None;
            }
            self.keep(&state);
        }
    }

    /// A call for a broker failed. Of one that was forgotten meanwhile that says nothing.
    pub(super) fn failed(&self, broker: &str, trouble: &Trouble) {
        if trouble.class.is_outage() {
            let mut state = self.state();
            match trouble.class {
                FailureClass::Fatal => state.fatal = Some(trouble.clone()),
                _ => {
                    if let Some(known) = state.brokers.get_mut(broker) {
                        *known = Some((trouble.clone(), Instant::now()));
                    }
                }
            }
            self.keep(&state);
        }
    }

    /// The name servers gave no answer that says where a topic is.
    pub(super) fn lost_names(&self, trouble: &Trouble) {
        if trouble.class.is_outage() {
            let mut state = self.state();
            match trouble.class {
                FailureClass::Fatal => state.fatal = Some(trouble.clone()),
                _ => state.names = Some(trouble.clone()),
            }
            self.keep(&state);
        }
    }

    /// A probe succeeded: everything but the broken client is forgotten, and found again if it is still so.
    pub(super) fn recovered(&self) {
        let mut state = self.state();
        state.names = None;
        state.brokers.values_mut().for_each(|trouble| *trouble = None);
        self.keep(&state);
    }

    /// The client library began another life.
    pub(super) fn replaced(&self) {
        let mut state = self.state();
        state.fatal = None;
        self.keep(&state);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.troubled.load(Ordering::Acquire) && self.state().fatal.is_some()
    }

    /// Whether a broker did not answer of late. After a while it is tried again: nothing else shows that it is back.
    pub(super) fn is_down(&self, broker: &str) -> bool {
        let of_late = |(_, at): &(Trouble, Instant)| at.elapsed() < ROCKETMQ_BROKER_REST;
        self.troubled.load(Ordering::Acquire)
            && self.state().brokers.get(broker).is_some_and(|trouble| trouble.as_ref().is_some_and(of_late))
    }

    /// Why nothing should be handed to the client now.
    pub(super) fn outage(&self) -> Option<TransportError> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        let state = self.state();
        let is_lost = state.brokers.values().all(Option::is_some);
        let lost = state.brokers.values().flatten().map(|(trouble, _)| trouble).next();
        let lost = lost.or(state.names.as_ref()).filter(|_| is_lost);
        let trouble = state.fatal.as_ref().or(lost)?;
        Some(TransportError::new(trouble.class, Said(Arc::clone(&trouble.text))))
    }

    fn keep(&self, state: &State) {
        let troubled = state.fatal.is_some() || state.names.is_some() || state.brokers.values().any(Option::is_some);
        self.troubled.store(troubled, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_when_no_broker_is_left() {
        let (health, [orders, a, b]) = (Health::default(), ["orders", "a", "b"].map(Arc::<str>::from));
        let gone = Trouble::new(FailureClass::Connection, "gone");
        health.lost_names(&gone);
        assert!(health.outage().is_some(), "no topic can be found");
        health.found(&orders, [&a, &b].into_iter());
        assert!(health.outage().is_none());
        health.failed("a", &gone);
        assert!(health.outage().is_none() && health.is_down("a") && !health.is_down("b"));
        health.lost_names(&gone);
        assert!(health.outage().is_none(), "what is known of the topics still holds");
        health.failed("b", &Trouble::new(FailureClass::Temporary, "slow"));
        assert!(health.outage().is_none());
        health.failed("b", &gone);
        assert_eq!(health.outage().map(|outage| outage.class()), Some(FailureClass::Connection));
        health.answered("b");
        assert!(health.outage().is_none());
        health.recovered();
        assert!(!health.is_down("a"));
    }

    #[test]
    fn a_broker_that_no_topic_is_on_any_more_is_forgotten() {
        let (health, [orders, bills]) = (Health::default(), ["orders", "bills"].map(Arc::<str>::from));
        let ([a, b], gone) = (["a", "b"].map(Arc::<str>::from), Trouble::new(FailureClass::Connection, "gone"));
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
    fn a_broken_client_is_one_until_it_is_replaced() {
        let health = Health::default();
        health.failed("a", &Trouble::panicked());
        health.recovered();
        assert_eq!(health.outage().map(|outage| outage.class()), Some(FailureClass::Fatal));
        health.replaced();
        assert!(health.outage().is_none());
    }
}
