//! Which transport takes which topics, and how many messages each may have in flight.

use std::sync::Arc;

use super::start_error::StartError;
use crate::limits::Limits;
use crate::topic::{DEFAULT_TRANSPORT, Topic};
use crate::transport::Transport;

/// A transport with its name and topics. Each has its own engine.
#[derive(Debug)]
pub(in crate::relay) struct Route {
    pub(in crate::relay) name: Arc<str>,
    pub(in crate::relay) transport: Arc<dyn Transport>,
    pub(in crate::relay) topics: Vec<Topic>,
}

/// The transports by name.
#[derive(Debug, Clone, Default)]
pub(in crate::relay) struct Transports(Vec<(Arc<str>, Arc<dyn Transport>)>);

impl Transports {
    /// As a setter: a later one replaces an earlier one.
    pub(in crate::relay) fn set_default(&mut self, transport: Arc<dyn Transport>) {
        self.0.retain(|(known, _)| **known != *DEFAULT_TRANSPORT);
        self.add(DEFAULT_TRANSPORT.into(), transport);
    }

    pub(in crate::relay) fn add(&mut self, name: Arc<str>, transport: Arc<dyn Transport>) {
        self.0.push((name, transport));
    }

    /// Adds the transports of `others` that the topics name and that are missing here.
    pub(super) fn fill(&mut self, others: &Self, topics: &[Topic]) {
        let known = self.names();
        let is_named = |name: &str| topics.iter().any(|topic| topic.transport_name() == name);
        self.0.extend(others.0.iter().filter(|(name, _)| !known.contains(name) && is_named(name)).cloned());
    }

    pub(in crate::relay) fn names(&self) -> Vec<Arc<str>> {
        self.0.iter().map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Gives each topic to its transport.
    ///
    /// A transport without a topic is an error, not a warning: if `via` was forgotten, its messages would go to another
    /// broker, and could not be taken back.
    pub(in crate::relay) fn route(self, topics: Vec<Topic>) -> Result<Vec<Route>, StartError> {
        let is_twice = |name: &Arc<str>| self.0.iter().filter(|(known, _)| known == name).count() > 1;
        if let Some(transport) = self.names().into_iter().find(is_twice) {
            return Err(StartError::DuplicateTransport { transport });
        }
        let is_known = |topic: &&Topic| self.0.iter().any(|(name, _)| **name == *topic.transport_name());
        if let Some(topic) = topics.iter().find(|topic| !is_known(topic)) {
            let (topic, transport) = (topic.shared_name(), topic.transport_name());
            return Err(match transport {
                DEFAULT_TRANSPORT => StartError::NoDefaultTransport { topic },
                _ => StartError::UnknownTransport { topic, transport: transport.into(), known: self.names() },
            });
        }
        let is_only_default = |name: &str| self.0.len() == 1 && name == DEFAULT_TRANSPORT;
        let route = |(name, transport): &(Arc<str>, Arc<dyn Transport>)| {
            let own: Vec<_> = topics.iter().filter(|topic| *topic.transport_name() == **name).cloned().collect();
            // A relay of an outbox without topics is allowed.
            if own.is_empty() && !(topics.is_empty() && is_only_default(name)) {
                return Err(StartError::UnusedTransport { transport: Arc::clone(name) });
            }
            Ok(Route { name: Arc::clone(name), transport: Arc::clone(transport), topics: own })
        };
        self.0.iter().map(route).collect()
    }

    pub(in crate::relay) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Divides the limits of messages in flight among the routes. The shares are equal; the part that one cannot use goes to the
/// others. A claim takes only a part of its share, to leave room for the other claims and the dispatcher.
pub(in crate::relay) fn shares(limits: &Limits, wanted: &[usize]) -> Vec<Limits> {
    let mut by_want: Vec<usize> = (0..wanted.len()).collect();
    by_want.sort_by_key(|&at| wanted[at]);
    let (mut left, mut shares) = (limits.in_flight_max, vec![limits.clone(); wanted.len()]);
    for (place, at) in by_want.into_iter().enumerate() {
        let rows = wanted[at].min(left / (wanted.len() - place)).max(1);
        left = left.saturating_sub(rows);
        let share = &mut shares[at];
        share.in_flight_max = rows;
        share.in_flight_bytes_max = (limits.in_flight_bytes_max / wanted.len()).max(1);
        let claims = limits.claim_workers + 1;
        share.claim_rows_max = limits.claim_rows_max.min((rows / claims).max(1));
        share.claim_bytes_max = limits.claim_bytes_max.min((share.in_flight_bytes_max / claims).max(1));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::MemoryTransport;

    fn given(names: &[&str]) -> Transports {
        let mut transports = Transports::default();
        names.iter().for_each(|name| transports.add((*name).into(), Arc::new(MemoryTransport::new())));
        transports
    }

    fn routed(names: &[&str], topics: Vec<Topic>) -> Result<Vec<(String, Vec<String>)>, String> {
        let routes = given(names).route(topics).map_err(|error| error.to_string())?;
        let name = |topic: &Topic| topic.name().to_owned();
        Ok(routes.iter().map(|route| (route.name.to_string(), route.topics.iter().map(name).collect())).collect())
    }

    #[test]
    fn each_topic_goes_to_the_transport_it_names() {
        let topics = vec![Topic::new("a"), Topic::new("b").via("hooks"), Topic::new("c").via("default")];
        let expected = [("default", vec!["a", "c"]), ("hooks", vec!["b"])];
        let expected =
            expected.map(|(name, topics)| (name.to_owned(), topics.into_iter().map(str::to_owned).collect()));
        assert_eq!(routed(&["default", "hooks"], topics), Ok(expected.to_vec()));
    }

    #[test]
    fn names_that_do_not_fit_are_refused_with_the_remedy() {
        let error = routed(&["hooks", "kafka"], vec![Topic::new("b").via("hoks")]).unwrap_err();
        assert!(error.contains("\"b\"") && error.contains("\"hoks\"") && error.contains("transport_named"), "{error}");
        assert!(error.contains("\"hooks\", \"kafka\""), "the known ones: {error}");
        let error = routed(&["default", "hooks"], vec![Topic::new("b")]).unwrap_err();
        assert!(error.contains("\"hooks\"") && error.contains("via"), "{error}");
        let error = routed(&["hooks"], vec![Topic::new("b").via("hooks"), Topic::new("a")]).unwrap_err();
        assert!(error.contains(".transport(..)"), "{error}");
        let error = routed(&["default", "hooks"], vec![Topic::new("b").via("hooks")]).unwrap_err();
        assert!(error.contains("\"default\""), "{error}");
        let error = routed(&["default", "default"], vec![Topic::new("a")]).unwrap_err();
        assert!(error.contains("\"default\"") && error.contains("transport_named"), "{error}");
        assert!(routed(&["default"], Vec::new()).is_ok(), "a relay of an outbox without topics");
    }

    #[test]
    fn shares_are_equal_and_the_others_get_what_one_cannot_use() {
        let limits = Limits::default();
        let in_flight =
            |wanted: &[usize]| shares(&limits, wanted).iter().map(|of| of.in_flight_max).collect::<Vec<_>>();
        assert_eq!(in_flight(&[usize::MAX]), [20_000]);
        assert_eq!(in_flight(&[usize::MAX, usize::MAX]), [10_000, 10_000]);
        assert_eq!(in_flight(&[usize::MAX, 512, usize::MAX]), [9_744, 512, 9_744]);
        let alone = &shares(&limits, &[usize::MAX])[0];
        assert_eq!(*alone, limits, "one transport has everything");
        assert_eq!(shares(&limits, &[300])[0].claim_rows_max, 100, "two claims and the dispatcher");
        let of_four = &shares(&limits, &[usize::MAX; 4])[3];
        assert!(of_four.claim_bytes_max * 3 <= of_four.in_flight_bytes_max, "two claims leave room for the dispatcher");
        let tiny = Limits { in_flight_max: 1, in_flight_bytes_max: 1, ..limits.clone() };
        assert!(shares(&tiny, &[9, 9]).iter().all(|of| of.in_flight_max == 1 && of.in_flight_bytes_max == 1));
    }
}
