//! The gauges of a relay, labelled so that several relays in one process do not overwrite each other.

use std::sync::Arc;

use metrics::{Gauge, Label};

/// Makes a relay's gauges, with its name as the label `relay` if it has one.
///
/// Counters need no such label: those of several relays add up, but of gauges the last write would win.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges {
    relay: Option<Arc<str>>,
}

impl Gauges {
    pub(crate) fn of(relay: Option<Arc<str>>) -> Self {
        Self { relay }
    }

    /// The relay's name, if the process has several.
    pub(crate) fn relay(&self) -> Option<&str> {
        self.relay.as_deref()
    }

    pub(crate) fn of_transport(&self, metric: &'static str, transport: &Arc<str>) -> Gauge {
        self.gauge(metric, vec![Label::new("transport", Arc::clone(transport))])
    }

    pub(crate) fn of_topic(&self, metric: &'static str, topic: &Arc<str>, transport: &Arc<str>) -> Gauge {
        let labels = [("topic", topic), ("transport", transport)];
        self.gauge(metric, labels.map(|(name, value)| Label::new(name, Arc::clone(value))).into())
    }

    pub(crate) fn of_relay(&self, metric: &'static str) -> Gauge {
        self.gauge(metric, Vec::new())
    }

    fn gauge(&self, metric: &'static str, mut labels: Vec<Label>) -> Gauge {
        labels.extend(self.relay.iter().map(|relay| Label::new("relay", Arc::clone(relay))));
        metrics::gauge!(metric, labels)
    }
}
