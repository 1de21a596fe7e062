//! How long the messages of a topic take.
//!
//! Each histogram is fetched at its first message: a topic has messages of few paths and few failures, and an exporter keeps a
//! series for each bucket.

use std::sync::{Arc, OnceLock};

use metrics::Histogram;

use crate::metrics as names;
use crate::relay::path::Path;
use crate::transport::FailureClass;

/// The histograms of one topic.
pub(crate) struct Timings {
    topic: Arc<str>,
    transport: Arc<str>,
    enqueue_to_ack: [OnceLock<Histogram>; Path::ALL.len()],
    delivered: OnceLock<Histogram>,
    failed: [OnceLock<Histogram>; FailureClass::ALL.len()],
}

impl Timings {
    pub(super) fn new(topic: &Arc<str>, transport: &Arc<str>) -> Self {
        let (enqueue_to_ack, failed) = (Default::default(), Default::default());
        let (topic, transport) = (Arc::clone(topic), Arc::clone(transport));
        Self { topic, transport, enqueue_to_ack, delivered: OnceLock::new(), failed }
    }

    pub(crate) fn enqueue_to_ack(&self, path: Path) -> &Histogram {
        self.enqueue_to_ack[path as usize].get_or_init(|| self.histogram(names::ENQUEUE_TO_ACK, "path", path.as_str()))
    }

    /// Of sends that ended with this failure, or with an acknowledgement.
    pub(crate) fn send(&self, failure: Option<FailureClass>) -> &Histogram {
        let (histogram, outcome) = match failure {
            None => (&self.delivered, "delivered"),
            Some(class) => (&self.failed[class as usize], class.as_str()),
        };
        histogram.get_or_init(|| self.histogram(names::SEND, "outcome", outcome))
    }

    fn histogram(&self, metric: &'static str, label: &'static str, value: &'static str) -> Histogram {
        let (topic, transport) = (Arc::clone(&self.topic), Arc::clone(&self.transport));
        metrics::histogram!(metric, "topic" => topic, "transport" => transport, label => value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrays are indexed by the values.
    #[test]
    fn every_path_and_class_has_its_place() {
        assert!(Path::ALL.iter().enumerate().all(|(at, path)| *path as usize == at));
        assert!(FailureClass::ALL.iter().enumerate().all(|(at, class)| *class as usize == at));
    }
}
