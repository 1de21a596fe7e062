//! How fast confirms follow one another: at once while rows come one by one, grouped under load.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::limits::{CONFIRM_REST, CONFIRM_REST_ROWS_MIN};

/// Says when the next confirm may go.
///
/// It waits, `interval` at most, until everything handed over is answered: the slower the broker or the processors are,
/// the larger the groups become, and a row that comes alone waits for nothing. A broker that answers at once gives no
/// such measure, so above a rate every confirm waits for the whole interval, until the rate has fallen to half of it: one
/// slow commit is no end of the load. (The size of the last group tells nothing:
/// what is sent at once never gathers in groups, however much of the processors that takes.)
///
/// And it rests [`CONFIRM_REST`] times as long as the last group took from the first look at it to its answers, where that
/// ends within the interval. A database at a distance of a millisecond was read after every third row without it, and a
/// broker got a request for every row, which cost the business 3 and 5 % of its transactions; to rows that already waited
/// for two ways there and back it adds a few more. Where fewer than [`CONFIRM_REST_ROWS_MIN`] rows came in an interval it rests
/// not at all: there a slow answer would only make the next row slow as well.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    group_rows_min: usize,
    not_before: Instant,
    /// When the last group was taken, and when it was read and handed to the client.
    last: (Instant, Instant),
    counted_since: Instant,
    rows: usize,
    rows_per_interval: f64,
    is_busy: bool,
}

impl Pace {
    /// Waits out the whole `interval` as long as each brings `group_rows_min` rows.
    pub(crate) fn new(interval: Duration, group_rows_min: usize, now: Instant) -> Self {
        Self {
            interval,
            group_rows_min,
            not_before: now,
            last: (now, now),
            counted_since: now,
            rows: 0,
            rows_per_interval: 0.0,
            is_busy: false,
        }
    }

    /// Notes that `rows` were taken.
    pub(crate) fn took(&mut self, rows: usize, now: Instant) {
        self.not_before = now + self.interval;
        self.rows += rows;
        let elapsed = now - self.counted_since;
        if elapsed >= self.interval && !elapsed.is_zero() {
            self.rows_per_interval = self.rows as f64 * self.interval.as_secs_f64() / elapsed.as_secs_f64();
            let rows = if self.is_busy { self.rows_per_interval * 2.0 } else { self.rows_per_interval };
            self.is_busy = rows >= self.group_rows_min as f64;
            (self.counted_since, self.rows) = (now, 0);
        }
    }

    /// Notes that what was taken at `began` is read and on its way.
    pub(crate) fn finished(&mut self, began: Instant, now: Instant) {
        self.last = (began, now);
    }

    /// Waits until the next group may be taken, at the latest at the end of the interval. Cancel safe.
    ///
    /// `answered` tells since when everything is answered, where anything was.
    pub(crate) async fn next(&self, answered: impl Future<Output = Option<Instant>>) {
        if self.is_busy {
            sleep_until(self.not_before).await;
        } else {
            // The end of the interval is an answer, too.
            let _ = timeout_at(self.not_before, self.rest(answered)).await;
        }
    }

    async fn rest(&self, answered: impl Future<Output = Option<Instant>>) {
        let (began_at, read_at) = self.last;
        let answered_at = answered.await.map_or(read_at, |at| at.max(read_at));
        if self.rows_per_interval < CONFIRM_REST_ROWS_MIN {
            return;
        }
        // In whole milliseconds, as timers count; rounded up, the shortest rest would be the longest in proportion.
        let rest = ((answered_at - began_at) * CONFIRM_REST).as_millis();
        let rest_until = answered_at + Duration::from_millis(u64::try_from(rest).unwrap_or(u64::MAX));
        // Not even asked of a timer where it is over: that would answer at the next whole millisecond.
        if Instant::now() < rest_until {
            sleep_until(rest_until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(5);

    fn pace() -> Pace {
        Pace::new(INTERVAL, 20, Instant::now())
    }

    /// Takes `rows` every `step` for 100 ms; returns how long the next would wait for an answer that is there.
    async fn wait_after(pace: &mut Pace, rows: usize, step: Duration) -> Duration {
        for _ in 0..(100_000 / step.as_micros()) {
            tokio::time::advance(step).await;
            pace.took(rows, Instant::now());
        }
        let began = Instant::now();
        pace.next(ready(None)).await;
        let waited = began.elapsed();
        pace.took(rows * (waited.as_micros() / step.as_micros()) as usize, Instant::now());
        waited
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_come_one_by_one_wait_for_nothing() {
        let mut pace = pace();
        assert_eq!(wait_after(&mut pace, 1, Duration::from_micros(500)).await, Duration::ZERO);
        assert_eq!(wait_after(&mut pace, 1, Duration::from_millis(5)).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn many_rows_share_an_interval_and_the_first_after_them_waits_for_nothing() {
        let mut pace = pace();
        assert_eq!(wait_after(&mut pace, 3, Duration::from_micros(400)).await, INTERVAL);
        assert_eq!(wait_after(&mut pace, 40, Duration::from_millis(6)).await, INTERVAL);
        tokio::time::advance(Duration::from_secs(1)).await;
        pace.took(1, Instant::now());
        let began = Instant::now();
        pace.next(ready(None)).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_ends_at_half_the_rate_that_began_it() {
        let mut pace = pace();
        assert_eq!(wait_after(&mut pace, 15, INTERVAL).await, Duration::ZERO);
        assert_eq!(wait_after(&mut pace, 25, INTERVAL).await, INTERVAL);
        assert_eq!(wait_after(&mut pace, 15, INTERVAL).await, INTERVAL);
        assert_eq!(wait_after(&mut pace, 5, INTERVAL).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_of_one_row_ends_too() {
        let mut pace = Pace::new(INTERVAL, 1, Instant::now());
        assert_eq!(wait_after(&mut pace, 1, INTERVAL).await, INTERVAL);
        assert_eq!(wait_after(&mut pace, 1, INTERVAL * 4).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_the_wait_and_so_does_the_interval() {
        let mut pace = pace();
        pace.took(1, Instant::now());
        let began = Instant::now();
        pace.next(after(Duration::from_millis(1), began)).await;
        assert_eq!(began.elapsed(), Duration::from_millis(1));
        pace.next(pending()).await;
        assert_eq!(began.elapsed(), INTERVAL);
    }

    /// A pace to which `rows` come in each millisecond.
    async fn pace_at(rows: usize) -> Pace {
        let mut pace = pace();
        wait_after(&mut pace, rows, Duration::from_millis(1)).await;
        pace
    }

    #[tokio::test(start_paused = true)]
    async fn the_answers_are_part_of_what_the_rest_is_in_proportion_to() {
        let mut pace = pace_at(2).await;
        let began = Instant::now();
        pace.took(1, began);
        pace.finished(began, began);
        pace.next(after(Duration::from_millis(1), began + Duration::from_millis(1))).await;
        assert_eq!(began.elapsed(), Duration::from_millis(4));
        pace.took(1, Instant::now());
        pace.finished(Instant::now(), Instant::now());
        let idle_since = Instant::now();
        pace.next(ready(Some(began))).await;
        assert_eq!(idle_since.elapsed(), Duration::ZERO, "an earlier group's answer says nothing of this one");
    }

    /// An answer that comes after `wait`, and says since when.
    async fn after(wait: Duration, answered_at: Instant) -> Option<Instant> {
        tokio::time::sleep(wait).await;
        Some(answered_at)
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_after_a_read_is_in_proportion_to_it_and_within_the_interval() {
        for (read_us, waited_us) in [(100, 0), (1_000, 3_000), (1_200, 3_000), (2_000, 3_000), (5_000, 0), (50_000, 0)]
        {
            let mut pace = pace_at(2).await;
            let began = Instant::now();
            pace.took(1, began);
            tokio::time::advance(Duration::from_micros(read_us)).await;
            pace.finished(began, Instant::now());
            let rest_began = Instant::now();
            pace.next(ready(None)).await;
            // Timers count in whole milliseconds.
            let waited = rest_began.elapsed();
            let expected = Duration::from_micros(waited_us);
            assert!(waited >= expected && waited <= expected + Duration::from_millis(1), "{read_us}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_come_seldom_wait_for_the_answer_before_them_and_for_no_rest() {
        let mut pace = pace();
        wait_after(&mut pace, 1, Duration::from_millis(5)).await;
        let began = Instant::now();
        pace.took(1, began);
        pace.finished(began, began);
        pace.next(after(Duration::from_millis(1), began + Duration::from_millis(1))).await;
        assert_eq!(began.elapsed(), Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_interval_nothing_waits() {
        let mut pace = Pace::new(Duration::ZERO, 20, Instant::now());
        assert_eq!(wait_after(&mut pace, 100, Duration::from_micros(100)).await, Duration::ZERO);
    }
}
