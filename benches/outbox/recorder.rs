//! A metrics recorder, as an application has one: the figures include its cost, and the legs can read counters.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Result, anyhow};
use metrics::{Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};

/// Counters and histograms since the last [`reset`](Self::reset). Gauges are not kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    counters: Arc<RwLock<HashMap<Key, Arc<Count>>>>,
    histograms: Arc<RwLock<HashMap<Key, Arc<Values>>>>,
}

#[derive(Debug, Default)]
struct Count(AtomicU64);

#[derive(Debug, Default)]
struct Values(Mutex<Vec<f64>>);

impl Recorder {
    /// Installs it as the process's recorder.
    pub(crate) fn install() -> Result<Self> {
        let recorder = Self::default();
        metrics::set_global_recorder(recorder.clone()).map_err(|_| anyhow!("there is a recorder already"))?;
        Ok(recorder)
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        let counters = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        counters.values().for_each(|count| count.0.store(0, Ordering::Relaxed));
        let histograms = self.histograms.read().unwrap_or_else(PoisonError::into_inner);
        histograms.values().for_each(|values| values.lock().clear());
    }

    /// The sum over all labels of a counter.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let counters = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        let matching = counters.iter().filter(|(key, _)| key.name() == name);
        matching.map(|(_, count)| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Every counter above zero, with its labels.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let counters = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        let moved = counters.iter().map(|(key, count)| (named(key), count.0.load(Ordering::Relaxed)));
        moved.filter(|(_, count)| *count > 0).collect()
    }

    /// Every value of a histogram, over all labels.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        let histograms = self.histograms.read().unwrap_or_else(PoisonError::into_inner);
        let matching = histograms.iter().filter(|(key, _)| key.name() == name);
        matching.flat_map(|(_, values)| values.lock().clone()).collect()
    }
}

impl Values {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }
    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.lock().push(value);
    }
}

/// `name label=value label=value`
fn named(key: &Key) -> String {
    let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
    std::iter::once(key.name().to_owned()).chain(labels).collect()
}

/// The value under `key`; most calls find it under a read lock.
fn kept<T: Default>(all: &RwLock<HashMap<Key, Arc<T>>>, key: &Key) -> Arc<T> {
    if let Some(kept) = all.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return Arc::clone(kept);
    }
    Arc::clone(all.write().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default())
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(kept(&self.counters, key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(kept(&self.histograms, key))
    }
}
