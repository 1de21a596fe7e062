//! When the next group may be taken: at once, unless the processors are busy.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::rest_trial::RestTrial;
use crate::limits::{CONFIRM_REST_SHORT, RUN_QUEUE_INTERVAL, RUN_QUEUE_LONG, RUN_QUEUE_SHARE, RUN_QUEUE_SHORT};

/// Says when the next group may be taken.
///
/// What arrives while a group is read and sent is the next group, so groups grow by themselves where the database is the limit. Where
/// threads wait for processors, each group rests a little for company, and leaves the business the processor time that more groups would
/// have cost. Neither the rate nor that wait tells whether a long rest helps: 5,000 rows a second on a schedule gain nothing from it, as
/// many from clients that wait for their answers gain an eighth. So it is tried ([`RestTrial`]).
#[derive(Debug)]
pub(crate) struct Pace {
    rest_max: Duration,
    took_at: Instant,
    asked_at: Instant,
    /// How long this thread waits for a processor, smoothed.
    wait: Duration,
    /// While the processors are busy.
    trial: Option<RestTrial>,
}

impl Pace {
    /// Rests no longer than `rest_max` from one group to the next.
    pub(crate) fn new(rest_max: Duration, now: Instant) -> Self {
        Self { rest_max, took_at: now, asked_at: now, wait: Duration::ZERO, trial: None }
    }

    /// Notes that a group was taken, when `arrived` rows had arrived since the start. `wait` says how long this thread has waited for
    /// a processor of late; it is asked now and then.
    pub(crate) fn took(&mut self, now: Instant, arrived: u64, wait: impl FnOnce() -> Option<Duration>) {
        self.took_at = now;
        if now - self.asked_at >= RUN_QUEUE_INTERVAL {
            self.asked_at = now;
            let of_late = wait().unwrap_or_default();
            self.wait = (self.wait * (RUN_QUEUE_SHARE - 1) + of_late) / RUN_QUEUE_SHARE;
            match self.trial {
                None if self.wait >= RUN_QUEUE_LONG => self.trial = Some(RestTrial::new(now)),
                Some(_) if self.wait < RUN_QUEUE_SHORT => self.trial = None,
                _ => {}
            }
        }
        if let Some(trial) = &mut self.trial {
            trial.note(now, arrived);
        }
    }

    /// Waits until the next group may be taken. Cancel safe.
    pub(crate) async fn next(&self) {
        let until = self.took_at + self.rest();
        // A timer would answer at the next whole millisecond even where it is over.
        if Instant::now() < until {
            sleep_until(until).await;
        }
    }

    fn rest(&self) -> Duration {
        match &self.trial {
            None => Duration::ZERO,
            Some(trial) if trial.rests_long() => self.rest_max,
            Some(_) => CONFIRM_REST_SHORT.min(self.rest_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST_MAX: Duration = Duration::from_millis(10);
    const STEP: Duration = Duration::from_millis(1);
    const TIME: Duration = Duration::from_secs(5);
    const BUSY: Option<Duration> = Some(RUN_QUEUE_LONG.saturating_mul(2));

    /// Takes a group each [`STEP`] while threads wait so long; in a rest rows arrive `speed` times as fast. Returns the shortest and the
    /// longest rest of the last second.
    async fn rests(pace: &mut Pace, wait: Option<Duration>, speed: f64) -> (Duration, Duration) {
        let began = Instant::now();
        let (mut arrived, mut shortest, mut longest) = (0.0, TIME, Duration::ZERO);
        while began.elapsed() < TIME {
            tokio::time::advance(STEP).await;
            let rest_began = Instant::now();
            pace.next().await;
            let rest = rest_began.elapsed();
            arrived += 5_000.0 * (STEP.as_secs_f64() + rest.as_secs_f64() * speed);
            pace.took(Instant::now(), arrived as u64, || wait);
            if began.elapsed() + Duration::from_secs(1) > TIME {
                (shortest, longest) = (shortest.min(rest), longest.max(rest));
            }
        }
        (shortest, longest)
    }

    fn pace() -> Pace {
        Pace::new(REST_MAX, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_rests_where_no_thread_waits_however_much_comes() {
        for wait in [None, Some(Duration::ZERO), Some(RUN_QUEUE_LONG - Duration::from_micros(1))] {
            assert_eq!(rests(&mut pace(), wait, 1.5).await, (Duration::ZERO, Duration::ZERO), "{wait:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn busy_processors_make_groups_rest_long_where_that_brings_more_rows_and_until_they_are_free() {
        let mut pace = pace();
        let (shortest, longest) = rests(&mut pace, BUSY, 1.5).await;
        assert!(shortest >= REST_MAX - STEP && longest <= REST_MAX, "{shortest:?} to {longest:?}");
        assert_eq!(rests(&mut pace, Some(Duration::ZERO), 1.5).await, (Duration::ZERO, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn busy_processors_make_groups_rest_for_a_short_time_where_a_long_one_brings_nothing() {
        for speed in [1.0, 0.8] {
            let (shortest, longest) = rests(&mut pace(), BUSY, speed).await;
            assert!(shortest > Duration::ZERO && longest <= CONFIRM_REST_SHORT, "{speed}: {shortest:?} to {longest:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_longest_rest_there_is_none() {
        let mut pace = Pace::new(Duration::ZERO, Instant::now());
        assert_eq!(rests(&mut pace, BUSY, 1.5).await, (Duration::ZERO, Duration::ZERO));
    }
}
