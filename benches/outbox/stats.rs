//! Percentiles and means.

use serde::Serialize;

/// A distribution of waits, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Waits {
    pub(crate) count: usize,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Waits {
    pub(crate) const PERCENTILES: [&str; 4] = ["p50", "p90", "p99", "max"];

    /// One of [`PERCENTILES`](Self::PERCENTILES).
    pub(crate) fn at(&self, percentile: &str) -> f64 {
        match percentile {
            "p50" => self.p50,
            "p90" => self.p90,
            "p99" => self.p99,
            _ => self.max,
        }
    }

    /// `None` if nothing was measured.
    pub(crate) fn of(micros: &[f64]) -> Option<Self> {
        let sorted = sorted(micros);
        let max = *sorted.last()?;
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        Some(Self { count: sorted.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max })
    }
}

/// Zero without samples.
pub(crate) fn mean(samples: &[f64]) -> f64 {
    // The sum of nothing is -0.
    (samples.iter().sum::<f64>() + 0.0) / samples.len().max(1) as f64
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
