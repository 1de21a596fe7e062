//! Retry policies in configuration files.

use std::sync::Arc;
use std::time::Duration;

use humantime_serde::Serde;
use serde::Deserialize;

use super::{Exponential, Fixed, RetryPolicy};

/// `{"exponential": {"initial": "1s", "max": "10m"}}` or `{"fixed": ["10s", "30s"]}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RetryConfig {
    Exponential(ExponentialConfig),
    Fixed(Vec<Serde<Duration>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExponentialConfig {
    #[serde(with = "humantime_serde")]
    initial: Duration,
    #[serde(with = "humantime_serde")]
    max: Duration,
    multiplier: Option<f64>,
    jitter: Option<f64>,
}

impl From<RetryConfig> for Arc<dyn RetryPolicy> {
    fn from(config: RetryConfig) -> Self {
        match config {
            RetryConfig::Fixed(waits) => {
                Arc::new(Fixed::from(waits.into_iter().map(Serde::into_inner).collect::<Vec<_>>()))
            }
            RetryConfig::Exponential(ExponentialConfig { initial, max, multiplier, jitter }) => {
                let policy = Exponential::new(initial, max);
                let policy = multiplier.map_or(policy.clone(), |factor| policy.multiplier(factor));
                Arc::new(jitter.map_or(policy.clone(), |share| policy.jitter(share)))
            }
        }
    }
}
