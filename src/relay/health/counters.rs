//! Metric handles that are used for each message. They are looked up once, because a look-up costs as much as all other work
//! of the engine for a message. So a recorder that is installed after the relay started does not get these metrics.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use metrics::{Counter, Histogram, Label};

use super::gauges::Gauges;
use super::timings::Timings;
use crate::clock::system_now;
use crate::metrics as names;
use crate::relay::path::Path;
use crate::store::TopicBacklog;
use crate::transport::FailureClass;

/// The metrics of one topic.
pub(crate) struct TopicCounters {
    labels: [Label; 2],
    sent: CountersByPath,
    delivered: CountersByPath,
    pub(crate) resent: Counter,
    pub(crate) fingerprint_unknown: Counter,
    pub(crate) commit_to_ack: Histogram,
    pub(crate) timings: Timings,
    pub(crate) totals: Totals,
}

impl TopicCounters {
    pub(crate) fn new(topic: &Arc<str>, transport: &Arc<str>) -> Self {
        let labels = [("topic", topic), ("transport", transport)];
        let labels = labels.map(|(name, value)| Label::new(name, Arc::clone(value)));
        Self {
            sent: CountersByPath::new(names::SENT, &labels),
            delivered: CountersByPath::new(names::DELIVERED, &labels),
            resent: metrics::counter!(names::RESENT, labels.to_vec()),
            fingerprint_unknown: metrics::counter!(names::FINGERPRINT_UNKNOWN, labels.to_vec()),
            commit_to_ack: metrics::histogram!(names::COMMIT_TO_ACK, labels.to_vec()),
            timings: Timings::new(topic, transport),
            totals: Totals::default(),
            labels,
        }
    }

    pub(crate) fn sent(&self, path: Path) -> &Counter {
        self.sent.of(path)
    }

    pub(crate) fn delivered(&self, path: Path) -> &Counter {
        self.delivered.of(path)
    }

    /// Looked up each time: failures are rare.
    pub(crate) fn failed(&self, class: FailureClass) -> Counter {
        metrics::counter!(names::FAILED, with_label(&self.labels, "class", class.as_str()))
    }
}

/// What the status says of all topics together: nobody can read the value of a metric.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) delivered: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// One counter per path.
struct CountersByPath {
    inline: Counter,
    confirmed: Counter,
    swept: Counter,
    lane: Counter,
}

impl CountersByPath {
    fn new(name: &'static str, labels: &[Label]) -> Self {
        let counter = |path: Path| metrics::counter!(name, with_label(labels, "path", path.as_str()));
        Self {
            inline: counter(Path::Inline),
            confirmed: counter(Path::Confirmed),
            swept: counter(Path::Swept),
            lane: counter(Path::Lane),
        }
    }

    fn of(&self, path: Path) -> &Counter {
        match path {
            Path::Inline => &self.inline,
            Path::Confirmed => &self.confirmed,
            Path::Swept => &self.swept,
            Path::Lane => &self.lane,
        }
    }
}

fn with_label(labels: &[Label], name: &'static str, value: &'static str) -> Vec<Label> {
    labels.iter().cloned().chain([Label::new(name, value)]).collect()
}

/// Gauges of the last backlog count.
#[derive(Debug)]
pub(crate) struct BacklogGauges {
    gauges: Gauges,
    /// The transport of each configured topic.
    transports: HashMap<Arc<str>, Arc<str>>,
    /// Topics that have gauges. A topic that the relay is not configured for appears only while it has rows; afterwards
    /// its gauges must be reset.
    reported: Mutex<HashSet<Arc<str>>>,
}

impl BacklogGauges {
    pub(crate) fn new(gauges: Gauges, transports: HashMap<Arc<str>, Arc<str>>) -> Self {
        Self { gauges, transports, reported: Mutex::default() }
    }

    /// The gauges of the whole relay.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    pub(crate) fn set(&self, topics: &[TopicBacklog]) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let now: HashSet<Arc<str>> = topics.iter().map(|of| Arc::clone(&of.topic)).collect();
        for gone in reported.difference(&now) {
            self.report(gone, [0; 3]);
        }
        for of in topics {
            self.report(&of.topic, [of.live, of.due, of.dead]);
        }
        let counted_at = system_now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.gauges.of_relay(names::BACKLOG_COUNTED).set(counted_at.as_secs_f64());
        *reported = now;
    }

    fn report(&self, topic: &Arc<str>, counts: [usize; 3]) {
        // Every series of a metric needs the same labels.
        let none = Arc::from("");
        let transport = self.transports.get(topic).unwrap_or(&none);
        for (name, count) in [names::LIVE_ROWS, names::DUE_ROWS, names::DEAD_LETTERS].into_iter().zip(counts) {
            self.gauges.of_topic(name, topic, transport).set(count as f64);
        }
    }
}

impl fmt::Debug for TopicCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicCounters").finish_non_exhaustive()
    }
}
