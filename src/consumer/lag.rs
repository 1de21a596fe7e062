//! How far behind the ends of its partitions a consumer is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::options::Options;
use super::shared::Shared;
use super::source::{Source, SourceError};
use crate::limits::CONSUMER_LAG_INTERVAL;
use crate::metrics;

pub(crate) struct Lag {
    options: Arc<Options>,
    next_at: Instant,
    /// The topics whose gauges were set.
    topics: BTreeMap<Arc<str>, i64>,
}

impl Lag {
    pub(crate) fn new(options: Arc<Options>, now: Instant) -> Self {
        Self { options, next_at: now, topics: BTreeMap::new() }
    }

    /// Whether it is time to measure.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_at <= now
    }

    /// Sets the gauges.
    ///
    /// # Errors
    /// Returns the broker's error. Then the lags stay as they are, and the others are set.
    pub(crate) fn measure(&mut self, shared: &Shared, source: &mut dyn Source) -> Result<(), SourceError> {
        self.next_at = Instant::now() + CONSUMER_LAG_INTERVAL;
        let (positions, is_away) = shared.with(|engine| (engine.positions(), engine.is_database_away()));
        let mut lags: BTreeMap<Arc<str>, i64> = self.topics.keys().map(|topic| (Arc::clone(topic), 0)).collect();
        let mut partitions = lags.clone();
        for (id, ..) in &positions {
            *partitions.entry(Arc::clone(&id.topic)).or_default() += 1;
        }
        let consumer = &self.options.consumer;
        let labels = |topic: &Arc<str>| [("consumer", consumer.to_string()), ("topic", topic.to_string())];
        for (topic, count) in &partitions {
            ::metrics::gauge!(metrics::CONSUMER_PARTITIONS, &labels(topic)).set(gauge(*count));
        }
        let away = if is_away { 1.0 } else { 0.0 };
        ::metrics::gauge!(metrics::CONSUMER_DATABASE_AWAY, "consumer" => consumer.to_string()).set(away);
        // The first partition that does not answer ends it: each would take the client's time-out.
        for (id, next, is_all) in positions {
            let end = source.end(&id)?;
            // Otherwise the end of the last transaction would count as a record for ever.
            let next = source.fetched(&id).filter(|_| is_all).map_or(next, |fetched| next.max(fetched));
            *lags.entry(id.topic).or_default() += (end - next).max(0);
        }
        shared.set_lag(lags.values().sum());
        for (topic, lag) in &lags {
            ::metrics::gauge!(metrics::CONSUMER_LAG, &labels(topic)).set(gauge(*lag));
        }
        self.topics = lags;
        Ok(())
    }
}

/// A consumer that has ended, in a process that goes on.
impl Drop for Lag {
    fn drop(&mut self) {
        let consumer = &self.options.consumer;
        for topic in self.topics.keys() {
            let labels = [("consumer", consumer.to_string()), ("topic", topic.to_string())];
            ::metrics::gauge!(metrics::CONSUMER_PARTITIONS, &labels).set(0.0);
            ::metrics::gauge!(metrics::CONSUMER_LAG, &labels).set(0.0);
        }
        ::metrics::gauge!(metrics::CONSUMER_DATABASE_AWAY, "consumer" => consumer.to_string()).set(0.0);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn gauge(count: i64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use ::metrics::with_local_recorder;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;

    #[test]
    fn a_consumer_that_has_ended_reads_nothing_and_lacks_nothing() {
        let recorder = DebuggingRecorder::new();
        with_local_recorder(&recorder, || {
            let mut lag = Lag::new(Arc::new(Options::new("kafka", "billing".into())), Instant::now());
            lag.topics.insert("orders".into(), 7);
            drop(lag);
        });
        let gauges = recorder.snapshotter().snapshot().into_vec();
        let mut names: Vec<_> = gauges.iter().map(|(key, ..)| key.key().name().to_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, [metrics::CONSUMER_DATABASE_AWAY, metrics::CONSUMER_LAG, metrics::CONSUMER_PARTITIONS]);
        assert!(gauges.iter().all(|(.., value)| *value == DebugValue::Gauge(0.0.into())), "{gauges:?}");
    }
}
