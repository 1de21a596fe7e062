//! When the next batch may be taken: at once, unless the processors are busy.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::linger_trial::{Linger, LingerTrial};
use crate::limits::{CONFIRM_LINGER_SHORT, RUN_QUEUE_BUSY, RUN_QUEUE_IDLE, RUN_QUEUE_INTERVAL, RUN_QUEUE_SMOOTHING};

/// Decides when the next batch may be taken.
///
/// Rows that arrive while a batch is read and sent form the next batch, so batches grow by themselves when the database
/// is the limit. When threads wait for processors, a batch that lingers leaves the business the processor time that
/// smaller batches would have cost. Neither the rate nor that wait shows whether a linger helps: 5,000 rows a second on
/// a schedule gain nothing, and as many from clients that wait for answers gain an eighth. So the relay tries it
/// ([`LingerTrial`]).
#[derive(Debug)]
pub(crate) struct ConfirmBatching {
    linger_max: Duration,
    last_batch_at: Instant,
    read_at: Instant,
    /// How long this thread waits for a processor, smoothed.
    wait: Duration,
    /// `Some` while the processors are busy.
    trial: Option<LingerTrial>,
}

impl ConfirmBatching {
    /// Never lingers longer than `linger_max` between two batches.
    pub(crate) fn new(linger_max: Duration, now: Instant) -> Self {
        Self { linger_max, last_batch_at: now, read_at: now, wait: Duration::ZERO, trial: None }
    }

    /// Notes that a batch was taken when `arrived` rows had arrived since the start. `wait` returns how long this
    /// thread has recently waited for a processor; it is called only now and then.
    pub(crate) fn note_batch(&mut self, now: Instant, arrived: u64, wait: impl FnOnce() -> Option<Duration>) {
        self.last_batch_at = now;
        if now - self.read_at >= RUN_QUEUE_INTERVAL {
            self.read_at = now;
            let of_late = wait().unwrap_or_default();
            self.wait = (self.wait * (RUN_QUEUE_SMOOTHING - 1) + of_late) / RUN_QUEUE_SMOOTHING;
            match &self.trial {
                None if self.wait >= RUN_QUEUE_BUSY => self.trial = Some(LingerTrial::new(now)),
                // Lingers make the wait short: while there are any, it does not say that the processors are free.
                Some(trial) if self.wait < RUN_QUEUE_IDLE && trial.is_idle() => self.trial = None,
                _ => {}
            }
        }
        if let Some(trial) = &mut self.trial {
            trial.note(now, arrived);
        }
    }

    /// Waits until the next batch may be taken. Cancel safe.
    pub(crate) async fn next(&self) {
        let until = self.last_batch_at + self.linger();
        // A timer would fire at the next whole millisecond even if the time is over.
        if Instant::now() < until {
            sleep_until(until).await;
        }
    }

    fn linger(&self) -> Duration {
        match self.trial.as_ref().map_or(Linger::None, LingerTrial::linger) {
            Linger::None => Duration::ZERO,
            Linger::Short => CONFIRM_LINGER_SHORT.min(self.linger_max),
            Linger::Long => self.linger_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINGER_MAX: Duration = Duration::from_millis(10);
    const STEP: Duration = Duration::from_millis(1);
    const TIME: Duration = Duration::from_secs(6);
    const BUSY: Option<Duration> = Some(RUN_QUEUE_BUSY.saturating_mul(2));

    /// Rows that arrive, and the batching that takes them.
    struct Load {
        batching: ConfirmBatching,
        arrived: f64,
        per_second: f64,
    }

    impl Load {
        fn new(linger_max: Duration) -> Self {
            Self { batching: ConfirmBatching::new(linger_max, Instant::now()), arrived: 0.0, per_second: 5_000.0 }
        }

        /// Takes a batch each [`STEP`] for [`TIME`]. `wait` says how long threads wait after a linger. Rows arrive `speed`
        /// times as fast during a linger. Returns the shortest and the longest linger of the last second.
        async fn lingers(&mut self, wait: impl Fn(Duration) -> Option<Duration>, speed: f64) -> (Duration, Duration) {
            let began = Instant::now();
            let (mut shortest, mut longest) = (TIME, Duration::ZERO);
            while began.elapsed() < TIME {
                tokio::time::advance(STEP).await;
                let linger_began = Instant::now();
                self.batching.next().await;
                let linger = linger_began.elapsed();
                self.arrived += self.per_second * (STEP.as_secs_f64() + linger.as_secs_f64() * speed);
                self.batching.note_batch(Instant::now(), self.arrived as u64, || wait(linger));
                if began.elapsed() + Duration::from_secs(1) > TIME {
                    (shortest, longest) = (shortest.min(linger), longest.max(linger));
                }
            }
            (shortest, longest)
        }
    }

    fn load() -> Load {
        Load::new(LINGER_MAX)
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_lingers_while_no_thread_waits_for_a_processor() {
        for wait in [None, Some(Duration::ZERO), Some(RUN_QUEUE_BUSY - Duration::from_micros(1))] {
            assert_eq!(load().lingers(|_| wait, 1.5).await, (Duration::ZERO, Duration::ZERO), "{wait:?}");
        }
    }

    /// A long linger makes the wait short. That does not end the lingers, or the wait would be long again.
    #[tokio::test(start_paused = true)]
    async fn busy_processors_make_batches_linger_long_where_that_brings_more_rows_and_until_fewer_arrive() {
        let mut load = load();
        for _ in 0..4 {
            let (shortest, longest) = load.lingers(|linger| BUSY.filter(|_| linger < LINGER_MAX / 2), 1.5).await;
            assert!(shortest >= LINGER_MAX - STEP && longest <= LINGER_MAX, "{shortest:?} to {longest:?}");
        }
        load.per_second *= 0.6;
        let (shortest, _) = load.lingers(|_| Some(Duration::ZERO), 1.5).await;
        assert!(shortest >= LINGER_MAX - STEP, "{shortest:?}");
        load.per_second *= 0.6;
        assert_eq!(load.lingers(|_| Some(Duration::ZERO), 1.5).await, (Duration::ZERO, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn busy_processors_make_no_batch_linger_where_that_brings_no_more_rows() {
        for speed in [1.0, 0.8] {
            assert_eq!(load().lingers(|_| BUSY, speed).await, (Duration::ZERO, Duration::ZERO), "{speed}");
        }
    }

    /// With `linger_max` at the short linger, the long one is the same and brings nothing further.
    #[tokio::test(start_paused = true)]
    async fn a_short_linger_that_helps_is_kept_where_a_long_one_brings_nothing_further() {
        let mut load = Load::new(CONFIRM_LINGER_SHORT);
        for _ in 0..2 {
            let (shortest, longest) = load.lingers(|linger| BUSY.filter(|_| linger.is_zero()), 1.5).await;
            assert!(shortest > Duration::ZERO && longest <= CONFIRM_LINGER_SHORT, "{shortest:?} to {longest:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_longest_linger_there_is_none() {
        assert_eq!(Load::new(Duration::ZERO).lingers(|_| BUSY, 1.5).await, (Duration::ZERO, Duration::ZERO));
    }
}
