//! The library's counters that faults affect: a metrics recorder for these only.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use diesel_outbox::internals::metrics::{
    CLAIM_FAILED, CONSUMED, LANE_LOST, LEASE_EXPIRED, LEASE_LOST, LEFT_TO_SWEEPER, RESENT, SETTLE_MISSED,
    SETTLE_RETRIED,
};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

const COUNTED: [&str; 9] = [
    CONSUMED,
    LEASE_EXPIRED,
    CLAIM_FAILED,
    LEFT_TO_SWEEPER,
    LANE_LOST,
    LEASE_LOST,
    RESENT,
    SETTLE_MISSED,
    SETTLE_RETRIED,
];

/// Counts by metric and label values.
type Counts = BTreeMap<(&'static str, String), Arc<AtomicU64>>;

#[derive(Debug, Clone, Default)]
pub(super) struct Counters(Arc<Mutex<Counts>>);

impl Counters {
    /// Becomes the recorder of this process. Must come before the relay, which registers most counters once.
    pub(super) fn install() -> Result<Self> {
        let counters = Self::default();
        metrics::set_global_recorder(counters.clone()).context("become the recorder of metrics")?;
        Ok(counters)
    }

    /// The counts so far: each metric in total, and those with labels by label.
    pub(super) fn counts(&self) -> Vec<(String, u64)> {
        let mut sums: BTreeMap<String, u64> = COUNTED.iter().map(|metric| ((*metric).to_owned(), 0)).collect();
        for ((metric, labels), count) in self.lock().iter() {
            let count = count.load(Ordering::Relaxed);
            *sums.entry((*metric).to_owned()).or_default() += count;
            if !labels.is_empty() {
                sums.insert(format!("{metric} {labels}"), count);
            }
        }
        sums.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        let Some(metric) = COUNTED.into_iter().find(|metric| *metric == key.name()) else { return Counter::noop() };
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        Counter::from_arc(Arc::clone(self.lock().entry((metric, labels.join(" "))).or_default()))
    }

    fn register_gauge(&self, _key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[cfg(test)]
mod tests {
    use diesel_outbox::internals::metrics::SENT;

    use super::*;

    #[test]
    fn only_selected_metrics_are_counted_in_total_and_by_label() {
        let counters = Counters::default();
        metrics::with_local_recorder(&counters, || {
            metrics::counter!(LEASE_EXPIRED, "path" => "swept").increment(2);
            metrics::counter!(LEASE_EXPIRED, "path" => "lane").increment(1);
            metrics::counter!(LEASE_EXPIRED, "path" => "swept").increment(1);
            metrics::counter!(SENT, "path" => "swept").increment(5);
        });
        let counts: BTreeMap<String, u64> = counters.counts().into_iter().collect();
        assert_eq!((counts[LEASE_EXPIRED], counts[CLAIM_FAILED], counts.get(SENT)), (4, 0, None));
        let of = |path: &str| counts[&format!("{LEASE_EXPIRED} {path}")];
        assert_eq!((of("lane"), of("swept")), (1, 3));
    }
}
