//! The backlog counter: counts the backlog from time to time, so that its gauges are fresh whoever scrapes them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::backlog;
use crate::limits::BACKLOG_PAUSE_FACTOR;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;
use crate::repeated::{Repeated, warn_once_a_minute};

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    let failures = Repeated::default();
    loop {
        let began = Instant::now();
        match backlog::count(&engines).await {
            Ok(_) => {}
            Err(error) if engines.store_health.failing().is_none() => {
                warn_once_a_minute!(BACKLOG_NOT_COUNTED, failures, error);
            }
            // The poller logs the outage.
            Err(error) => tracing::debug!(%error, "the backlog could not be counted"),
        }
        tokio::select! {
            () = sleep(pause(engines.limits.backlog_interval, began.elapsed())) => {}
            () = engines.stop.reached(Stage::Draining) => return,
        }
    }
}

/// How long to pause after a count that took so long.
fn pause(interval: Duration, took: Duration) -> Duration {
    interval.max(took.saturating_mul(BACKLOG_PAUSE_FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_count_is_followed_by_a_long_pause() {
        let interval = Duration::from_secs(30);
        assert_eq!(pause(interval, Duration::from_millis(20)), interval);
        assert_eq!(pause(interval, Duration::from_secs(5)), Duration::from_secs(250));
    }
}
