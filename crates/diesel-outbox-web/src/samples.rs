//! The last hour, in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::SAMPLES_MAX;

/// What the plots show of one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    /// What was counted in the tables; `None` if they could not be read.
    pub(crate) backlog: Option<Counted>,
    /// Since the relays' start.
    pub(crate) delivered: u64,
    pub(crate) failed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) live: usize,
    pub(crate) due: usize,
    pub(crate) dead: usize,
    pub(crate) overdue: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Samples {
    ring: Mutex<VecDeque<Sample>>,
    /// Set once the sampler runs.
    pub(crate) is_sampled: std::sync::atomic::AtomicBool,
}

impl Samples {
    pub(crate) fn push(&self, sample: Sample) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.push_back(sample);
        let surplus = ring.len().saturating_sub(SAMPLES_MAX);
        ring.drain(..surplus);
    }

    pub(crate) fn all(&self) -> Vec<Sample> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// How many per second between each sample and the one before it. A relay that was started again counts from zero.
pub(crate) fn rates(samples: &[Sample], total: impl Fn(&Sample) -> u64) -> Vec<Option<f64>> {
    let rate = |pair: &[Sample]| {
        let seconds = (pair[1].at - pair[0].at).as_secs_f64();
        let more = total(&pair[1]).checked_sub(total(&pair[0]))?;
        (seconds > 0.0).then(|| more as f64 / seconds)
    };
    samples.windows(2).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, delivered: u64) -> Sample {
        Sample { at, backlog: None, delivered, failed: 0 }
    }

    #[test]
    fn rates_are_per_second_and_unknown_across_a_restart() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let samples =
            [sample(at(0), 0), sample(at(10), 100), sample(at(30), 100), sample(at(31), 4), sample(at(31), 9)];
        assert_eq!(rates(&samples, |sample| sample.delivered), [Some(10.0), Some(0.0), None, None]);
    }

    #[test]
    fn an_hour_is_kept() {
        let (samples, began) = (Samples::default(), Instant::now());
        for delivered in 0..SAMPLES_MAX as u64 + 5 {
            samples.push(sample(began, delivered));
        }
        let kept = samples.all();
        assert_eq!((kept.len(), kept[0].delivered), (SAMPLES_MAX, 5));
    }
}
