//! Metric handles that are used for each message. They are looked up once, because a look-up costs as much as all other work
//! of the engine for a message. So a recorder that is installed after the relay started does not get these metrics.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use metrics::{Counter, Histogram};

use super::gauges::Gauges;
use super::timings::Timings;
use crate::clock::system_now;
use crate::metrics as names;
use crate::relay::path::Path;
use crate::store::TopicBacklog;

/// The metrics of one topic.
pub(crate) struct TopicCounters {
    sent: CountersByPath,
    delivered: CountersByPath,
    pub(crate) resent: Counter,
    pub(crate) commit_to_ack: Histogram,
    pub(crate) timings: Timings,
    pub(crate) totals: Totals,
}

impl TopicCounters {
    pub(crate) fn new(topic: &Arc<str>) -> Self {
        Self {
            sent: CountersByPath::new(names::SENT, topic),
            delivered: CountersByPath::new(names::DELIVERED, topic),
            resent: metrics::counter!(names::RESENT, "topic" => Arc::clone(topic)),
            commit_to_ack: metrics::histogram!(names::COMMIT_TO_ACK, "topic" => Arc::clone(topic)),
            timings: Timings::new(topic),
            totals: Totals::default(),
        }
    }

    pub(crate) fn sent(&self, path: Path) -> &Counter {
        self.sent.of(path)
    }

    pub(crate) fn delivered(&self, path: Path) -> &Counter {
        self.delivered.of(path)
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
    direct: Counter,
    confirmed: Counter,
    swept: Counter,
    lane: Counter,
}

impl CountersByPath {
    fn new(name: &'static str, topic: &Arc<str>) -> Self {
        let counter = |path: Path| metrics::counter!(name, "topic" => Arc::clone(topic), "path" => path.as_str());
        Self {
            direct: counter(Path::Direct),
            confirmed: counter(Path::Confirmed),
            swept: counter(Path::Swept),
            lane: counter(Path::Lane),
        }
    }

    fn of(&self, path: Path) -> &Counter {
        match path {
            Path::Direct => &self.direct,
            Path::Confirmed => &self.confirmed,
            Path::Swept => &self.swept,
            Path::Lane => &self.lane,
        }
    }
}

/// Gauges of the last backlog count.
#[derive(Debug)]
pub(crate) struct BacklogGauges {
    gauges: Gauges,
    /// Topics that have gauges. A topic that the relay is not configured for appears only while it has rows; afterwards
    /// its gauges must be reset.
    reported: Mutex<HashSet<Arc<str>>>,
}

impl BacklogGauges {
    pub(crate) fn new(gauges: Gauges) -> Self {
        Self { gauges, reported: Mutex::default() }
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
        for (name, count) in [names::LIVE_ROWS, names::DUE_ROWS, names::DEAD_LETTERS].into_iter().zip(counts) {
            self.gauges.of_topic(name, topic).set(count as f64);
        }
    }
}

impl fmt::Debug for TopicCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicCounters").finish_non_exhaustive()
    }
}
