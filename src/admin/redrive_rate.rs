use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::AdminError;
use crate::limits::{REDRIVE_PER_SECOND, REDRIVE_ROWS_MAX};

/// The period of a rate.
const SECOND: Duration = Duration::from_secs(1);

/// How fast messages are redriven or resent.
///
/// ```
/// use diesel_outbox::admin::RedriveRate;
/// let gently = RedriveRate::default().per_second(50);
/// assert_ne!(gently, RedriveRate::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedriveRate {
    pub(super) rows_max: usize,
    pub(super) per_second: u32,
}

impl Default for RedriveRate {
    fn default() -> Self {
        Self { rows_max: REDRIVE_ROWS_MAX, per_second: REDRIVE_PER_SECOND }
    }
}

impl RedriveRate {
    /// How many messages one transaction moves: no more than `per_second`, and at most 500.
    #[must_use]
    pub fn rows_max(mut self, rows: usize) -> Self {
        self.rows_max = rows;
        self
    }

    /// How many messages are moved per second, on average.
    #[must_use]
    pub fn per_second(mut self, rows: u32) -> Self {
        self.per_second = rows;
        self
    }

    pub(super) fn begin(self) -> Result<RateLimiter, AdminError> {
        if self.rows_max == 0 || self.per_second == 0 {
            return Err(AdminError::ZeroRate);
        }
        let in_a_second = usize::try_from(self.per_second).unwrap_or(usize::MAX);
        let rows_max = self.rows_max.min(in_a_second).min(REDRIVE_ROWS_MAX);
        Ok(RateLimiter { rows_max, per_second: self.per_second, next_at: Instant::now() })
    }
}

/// Keeps the moves within a rate.
pub(super) struct RateLimiter {
    pub(super) rows_max: usize,
    per_second: u32,
    next_at: Instant,
}

impl RateLimiter {
    /// Waits until the next rows may move.
    pub(super) async fn wait(&self) {
        sleep_until(self.next_at).await;
    }

    /// Counts rows that were moved.
    pub(super) fn record(&mut self, rows: usize) {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.next_at = self.next_at.max(Instant::now()) + SECOND * rows / self.per_second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_default_rate_is_not_exceeded() {
        let (began, mut limiter) = (Instant::now(), RedriveRate::default().begin().expect("a rate"));
        let seconds = 3;
        for _ in 0..REDRIVE_PER_SECOND as usize * seconds / REDRIVE_ROWS_MAX {
            limiter.wait().await;
            limiter.record(limiter.rows_max);
        }
        limiter.wait().await;
        assert_eq!((limiter.rows_max, began.elapsed().as_secs()), (REDRIVE_ROWS_MAX, seconds as u64));
    }
}
