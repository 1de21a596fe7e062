//! Median, spread and percentiles.

use serde::Serialize;

/// What several rounds gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` where there is nothing to sum up.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: low.midpoint(high), min, max })
    }
}

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

    /// `None` where nothing was measured.
    pub(crate) fn of(micros: &[f64]) -> Option<Self> {
        let sorted = sorted(micros);
        let max = *sorted.last()?;
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        Some(Self { count: sorted.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max })
    }
}

/// Zero where there is nothing.
pub(crate) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
