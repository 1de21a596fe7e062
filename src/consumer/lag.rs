//! How far behind the ends of its partitions a consumer is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::engine::Done;
use super::options::Options;
use super::shared::Shared;
use super::source::{Source, SourceError};
use crate::limits::CONSUMER_LAG_INTERVAL;
use crate::metrics;

/// A number for each topic.
type Numbers = BTreeMap<Arc<str>, usize>;

pub(crate) struct Lag {
    options: Arc<Options>,
    next_at: Instant,
    /// The topics that have gauges, each with 0.
    topics: Numbers,
}

impl Lag {
    pub(crate) fn new(options: Arc<Options>, now: Instant) -> Self {
        // Kafka's client takes a name with this sign as a pattern.
        let topics = options.topics.iter().filter(|topic| !topic.starts_with('^'));
        let topics = topics.map(|topic| (Arc::clone(topic), 0)).collect();
        Self { options, next_at: now, topics }
    }

    /// Whether it is time to measure.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_at <= now
    }

    /// Has it measured next time, because other partitions are read.
    pub(crate) fn measure_now(&mut self) {
        self.next_at = Instant::now();
    }

    /// Sets the gauges. `lag_of` asks the broker for the end of a partition.
    ///
    /// # Errors
    /// Returns the broker's error. Then the lags stay as they are, and the others are set.
    pub(crate) fn measure(
        &mut self,
        shared: &Shared,
        mut lag_of: impl FnMut(&Done) -> Result<i64, SourceError>,
    ) -> Result<(), SourceError> {
        self.next_at = Instant::now() + CONSUMER_LAG_INTERVAL;
        let (positions, is_away) = shared.with(|engine| (engine.positions(), engine.is_database_away()));
        self.topics.extend(positions.iter().map(|done| (Arc::clone(&done.id.topic), 0)));
        let (mut partitions, mut unprocessed, mut lags) =
            (self.topics.clone(), self.topics.clone(), self.topics.clone());
        for done in &positions {
            *partitions.entry(Arc::clone(&done.id.topic)).or_default() += 1;
            *unprocessed.entry(Arc::clone(&done.id.topic)).or_default() += done.unprocessed;
        }
        self.set(metrics::CONSUMER_PARTITIONS, &partitions);
        self.set(metrics::CONSUMER_UNPROCESSED, &unprocessed);
        self.set_away(is_away);
        // The first partition that does not answer ends it: each would take the client's time-out.
        for done in positions {
            let lag = usize::try_from(lag_of(&done)?).unwrap_or(0);
            *lags.entry(done.id.topic).or_default() += lag;
        }
        self.set(metrics::CONSUMER_LAG, &lags);
        shared.set_lag(lags.values().sum());
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn set(&self, gauge: &'static str, numbers: &Numbers) {
        for (topic, number) in numbers {
            let labels = [("consumer", self.options.consumer.to_string()), ("topic", topic.to_string())];
            ::metrics::gauge!(gauge, &labels).set(*number as f64);
        }
    }

    fn set_away(&self, is_away: bool) {
        let away = if is_away { 1.0 } else { 0.0 };
        let consumer = self.options.consumer.to_string();
        ::metrics::gauge!(metrics::CONSUMER_DATABASE_AWAY, "consumer" => consumer).set(away);
    }
}

/// Records between what is done of a partition and its end.
pub(crate) fn lag_of(done: &Done, source: &mut dyn Source) -> Result<i64, SourceError> {
    let end = source.end(&done.id)?;
    // Otherwise the end of the last transaction would count as a record for ever: it has an offset, too.
    let fetched = source.fetched(&done.id).filter(|_| done.is_up_to_date);
    Ok(end - fetched.map_or(done.next, |fetched| fetched.max(done.next)))
}

/// The process may go on without its consumer, after a shutdown or a panic.
impl Drop for Lag {
    fn drop(&mut self) {
        for gauge in [metrics::CONSUMER_PARTITIONS, metrics::CONSUMER_UNPROCESSED, metrics::CONSUMER_LAG] {
            self.set(gauge, &self.topics);
        }
        self.set_away(false);
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::consumer::engine::Opening;
    use crate::consumer::record::{PartitionId, Record};
    use crate::message::Headers;

    fn record(partition: &PartitionId, offset: i64) -> Record {
        let partition = partition.clone();
        Record { partition, offset, key: None, payload: None, headers: Headers::new(), timestamp: None }
    }

    #[test]
    fn every_topic_has_gauges_from_the_start_to_the_end() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let gauges = || -> BTreeMap<String, f64> {
            let all = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
                let DebugValue::Gauge(level) = value else { panic!("{key:?} is no gauge") };
                let name = key.key().name().trim_start_matches("outbox_consumer_").to_owned();
                let labels = key.key().labels().map(|label| format!(" {}", label.value()));
                (name + &labels.collect::<String>(), level.into_inner())
            });
            all.collect()
        };
        let expected = |away: f64, of_orders: [f64; 3]| {
            let names = ["lag_records", "partitions", "unprocessed_records"];
            let orders = names.iter().zip(of_orders).map(|(name, level)| (format!("{name} billing orders"), level));
            let returns = names.iter().map(|name| (format!("{name} billing returns"), 0.0));
            let away = [("database_away billing".to_owned(), away)];
            away.into_iter().chain(orders).chain(returns).collect::<BTreeMap<_, _>>()
        };
        let mut options = Options::new("kafka", "billing".into());
        options.topics = ["orders", "returns", "^refunds-.*"].map(Arc::from).to_vec();
        let options = Arc::new(options);
        let shared = Shared::new(Arc::clone(&options));
        let id = PartitionId { topic: "orders".into(), name: "3".into() };
        ::metrics::with_local_recorder(&recorder, || {
            let mut lag = Lag::new(options, Instant::now());
            assert_eq!(lag.measure(&shared, |_| panic!("there is no partition")).ok(), Some(()));
            assert_eq!(gauges(), expected(0.0, [0.0; 3]));
            shared.with(|engine| engine.open(id.clone(), Opening { start: 4, ..Opening::default() }, Instant::now()));
            shared.add(record(&id, 4));
            shared.add(record(&id, 6));
            shared.database_is_away("the test says so");
            assert_eq!(lag.measure(&shared, |done| Ok(9 - done.next)).ok(), Some(()));
            assert_eq!(gauges(), expected(1.0, [5.0, 1.0, 2.0]));
            // A snapshot sets gauges to 0.
            assert_eq!(lag.measure(&shared, |_| Ok(9)).ok(), Some(()));
            drop(lag);
            assert_eq!(gauges(), expected(0.0, [0.0; 3]));
        });
    }
}
