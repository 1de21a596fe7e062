//! Measures whether more rows arrive when batches linger longer.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    LINGER_LOAD_SHARE_MIN, LINGER_LOAD_WINDOW, LINGER_TRIAL_DELAY, LINGER_TRIAL_GAIN_MIN, LINGER_TRIAL_PAIRS,
    LINGER_TRIAL_VALID_MAX, LINGER_TRIAL_VALID_MIN, LINGER_TRIAL_WINDOW, LINGER_TRIAL_WINS_MIN,
};

/// Alternates windows of long and short lingers for a while, then keeps the better one.
///
/// Clients that share the processors with the relay and wait for their own answers commit more when the relay uses
/// less. Rows on a schedule arrive anyway, so they are spared the wait. A long linger that helps frees the processors,
/// so their load no longer tells when to end it. It ends when fewer rows arrive.
#[derive(Debug)]
pub(in crate::relay) struct LingerTrial {
    stage: Stage,
    /// How long the last result counts. Doubles each time the result stays the same.
    valid_for: Duration,
    last_result: Option<bool>,
}

#[derive(Debug)]
enum Stage {
    Trying(Window, Pairs),
    /// Until the next trial; with the load, if long lingers were found to help.
    Waiting {
        until: Instant,
        load: Option<Load>,
    },
}

/// The load for which long lingers were found to help.
#[derive(Debug, Clone, Copy)]
struct Load {
    rate_min: f64,
    /// When counting began, and how many rows had arrived by then.
    counted: (Instant, u64),
}

/// A window of long or short lingers.
#[derive(Debug, Clone, Copy)]
struct Window {
    began_at: Instant,
    /// When counting began, and how many rows had arrived by then. Early arrivals were delayed by the window before and
    /// do not count.
    counted: Option<(Instant, u64)>,
}

/// Rows per second of the windows so far.
#[derive(Debug, Default)]
struct Pairs {
    /// The first window of a pair, with short lingers.
    short: Option<f64>,
    sum_short: f64,
    sum_long: f64,
    count: u32,
    /// In how many pairs more rows arrived with long lingers.
    wins: u32,
}

impl LingerTrial {
    pub(in crate::relay) fn new(now: Instant) -> Self {
        let stage = Stage::Waiting { until: now + LINGER_TRIAL_DELAY, load: None };
        Self { stage, valid_for: LINGER_TRIAL_VALID_MIN, last_result: None }
    }

    /// Whether batches currently linger long.
    pub(super) fn lingers_long(&self) -> bool {
        match &self.stage {
            Stage::Trying(_, pairs) => pairs.short.is_some(),
            Stage::Waiting { load, .. } => load.is_some(),
        }
    }

    /// Whether batches linger for a short time, and nothing else is being tried.
    pub(super) fn keeps_short(&self) -> bool {
        matches!(self.stage, Stage::Waiting { load: None, .. })
    }

    /// Notes how many rows had arrived by now.
    pub(in crate::relay) fn note(&mut self, now: Instant, arrived: u64) {
        match &mut self.stage {
            Stage::Waiting { until, .. } if now >= *until => {
                self.stage = Stage::Trying(Window::new(now), Pairs::default());
            }
            Stage::Waiting { load, .. } => {
                if load.as_mut().is_some_and(|load| load.has_ended(now, arrived)) {
                    *self = Self::new(now);
                }
            }
            Stage::Trying(window, pairs) => {
                let Some(rate) = window.rate(now, arrived) else { return };
                *window = Window::new(now);
                pairs.add(rate);
                if let Some(helps) = pairs.result() {
                    let rate_min = pairs.sum_long / f64::from(pairs.count) * LINGER_LOAD_SHARE_MIN;
                    self.decide(helps.then_some(Load { rate_min, counted: (now, arrived) }), now);
                }
            }
        }
    }

    fn decide(&mut self, load: Option<Load>, now: Instant) {
        let helps = load.is_some();
        let is_known = self.last_result == Some(helps);
        self.valid_for =
            if is_known { (self.valid_for * 2).min(LINGER_TRIAL_VALID_MAX) } else { LINGER_TRIAL_VALID_MIN };
        self.last_result = Some(helps);
        self.stage = Stage::Waiting { until: now + self.valid_for, load };
    }
}

impl Load {
    fn has_ended(&mut self, now: Instant, arrived: u64) -> bool {
        let (from, before) = self.counted;
        if now - from < LINGER_LOAD_WINDOW {
            return false;
        }
        self.counted = (now, arrived);
        (arrived.saturating_sub(before) as f64) < self.rate_min * (now - from).as_secs_f64()
    }
}

impl Window {
    fn new(now: Instant) -> Self {
        Self { began_at: now, counted: None }
    }

    /// Rows per second, once the window is over.
    fn rate(&mut self, now: Instant, arrived: u64) -> Option<f64> {
        if now - self.began_at < LINGER_TRIAL_WINDOW / 2 {
            return None;
        }
        let (from, before) = *self.counted.get_or_insert((now, arrived));
        let is_over = now - self.began_at >= LINGER_TRIAL_WINDOW && now > from;
        is_over.then(|| arrived.saturating_sub(before) as f64 / (now - from).as_secs_f64())
    }
}

impl Pairs {
    /// Windows alternate: a short one, then the long one of its pair.
    fn add(&mut self, rate: f64) {
        let Some(short) = self.short.take() else {
            self.short = Some(rate);
            return;
        };
        self.sum_short += short;
        self.sum_long += rate;
        self.count += 1;
        self.wins += u32::from(rate > short);
    }

    /// Whether long lingers help, once that is known; at half time if it is clear. Not by the sums alone: a checkpoint
    /// or a broker pause falls into one window and says nothing about lingers.
    fn result(&self) -> Option<bool> {
        let brings_more = self.sum_long >= self.sum_short * LINGER_TRIAL_GAIN_MIN;
        match self.count {
            LINGER_TRIAL_PAIRS.. => Some(brings_more && self.wins >= LINGER_TRIAL_WINS_MIN),
            HALF if self.wins == HALF && brings_more => Some(true),
            HALF if self.wins <= HALF / 2 => Some(false),
            _ => None,
        }
    }
}

/// Pairs after which a clear result is enough.
const HALF: u32 = LINGER_TRIAL_PAIRS / 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes `count` windows. `rows` gives the rows of a window from its number and whether it lingers long. Returns
    /// how many lingered long.
    async fn windows(
        trial: &mut LingerTrial,
        arrived: &mut u64,
        count: u32,
        mut rows: impl FnMut(u32, bool) -> u64,
    ) -> u32 {
        let mut lingered = 0;
        for window in 0..count {
            lingered += u32::from(trial.lingers_long());
            let rows = rows(window, trial.lingers_long());
            for _ in 0..2 {
                *arrived += rows;
                tokio::time::advance(LINGER_TRIAL_WINDOW / 2).await;
                trial.note(Instant::now(), *arrived);
            }
        }
        lingered
    }

    /// A trial that has just begun.
    async fn trial() -> (LingerTrial, u64) {
        let mut trial = LingerTrial::new(Instant::now());
        tokio::time::advance(LINGER_TRIAL_DELAY).await;
        trial.note(Instant::now(), 0);
        (trial, 0)
    }

    fn is_trying(trial: &LingerTrial) -> bool {
        matches!(trial.stage, Stage::Trying(..))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_at_once() {
        let (mut trial, began) = (LingerTrial::new(Instant::now()), Instant::now());
        while !is_trying(&trial) {
            tokio::time::advance(LINGER_TRIAL_WINDOW).await;
            trial.note(Instant::now(), 0);
        }
        assert!(began.elapsed() >= LINGER_TRIAL_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plain_result_needs_half_the_windows_and_every_other_of_them_lingers() {
        for (with, helps) in [(120, true), (100, false), (90, false)] {
            let (mut trial, mut arrived) = trial().await;
            let lingered =
                windows(&mut trial, &mut arrived, 2 * HALF, |_, lingers| if lingers { with } else { 100 }).await;
            assert_eq!((lingered, is_trying(&trial), trial.lingers_long()), (HALF, false, helps), "{with}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_gain_is_measured_to_the_end_and_rejected() {
        let (mut trial, mut arrived) = trial().await;
        let rows = |_, lingers| if lingers { 105 } else { 100 };
        windows(&mut trial, &mut arrived, 2 * LINGER_TRIAL_PAIRS - 1, rows).await;
        assert!(is_trying(&trial));
        windows(&mut trial, &mut arrived, 1, rows).await;
        assert_eq!((is_trying(&trial), trial.lingers_long()), (false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn one_window_that_stands_out_decides_nothing() {
        let (mut trial, mut arrived) = trial().await;
        let rows = |window, lingers| if window == 3 && lingers { 900 } else { 100 };
        windows(&mut trial, &mut arrived, 2 * LINGER_TRIAL_PAIRS, rows).await;
        assert_eq!((is_trying(&trial), trial.lingers_long()), (false, false));
    }

    /// Rows that were held up arrive in the first half of the next window.
    #[tokio::test(start_paused = true)]
    async fn late_rows_count_for_no_window() {
        let (mut trial, mut arrived) = trial().await;
        for _ in 0..2 * HALF {
            arrived += if trial.lingers_long() { 150 } else { 50 };
            tokio::time::advance(LINGER_TRIAL_WINDOW / 2).await;
            trial.note(Instant::now(), arrived);
            arrived += 100;
            tokio::time::advance(LINGER_TRIAL_WINDOW / 2).await;
            trial.note(Instant::now(), arrived);
        }
        assert_eq!((is_trying(&trial), trial.lingers_long()), (false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn long_lingers_end_when_less_than_half_as_many_rows_arrive_and_no_pause_ends_them() {
        let (mut trial, mut arrived) = trial().await;
        windows(&mut trial, &mut arrived, 2 * HALF, |_, lingers| if lingers { 120 } else { 100 }).await;
        let in_load_window = LINGER_LOAD_WINDOW.div_duration_f64(LINGER_TRIAL_WINDOW).ceil() as u32;
        assert!(trial.lingers_long() && !trial.keeps_short());
        windows(&mut trial, &mut arrived, in_load_window, |window, _| if window < 2 { 0 } else { 120 }).await;
        windows(&mut trial, &mut arrived, in_load_window, |_, _| 61).await;
        assert!(trial.lingers_long());
        for _ in 0..2 * in_load_window {
            if trial.lingers_long() {
                windows(&mut trial, &mut arrived, 1, |_, _| 59).await;
            }
        }
        assert!(!trial.lingers_long() && trial.keeps_short());
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_tried_again_ever_less_often_and_a_change_is_noticed() {
        let (mut trial, mut arrived) = trial().await;
        let mut waits = Vec::new();
        for _ in 0..6 {
            windows(&mut trial, &mut arrived, 2 * HALF, |_, _| 100).await;
            let from = Instant::now();
            while !is_trying(&trial) {
                tokio::time::advance(LINGER_TRIAL_WINDOW).await;
                trial.note(Instant::now(), arrived);
            }
            waits.push(from.elapsed());
        }
        let (first, last) = (waits[0], waits[waits.len() - 1]);
        assert!(first >= LINGER_TRIAL_VALID_MIN && first < LINGER_TRIAL_VALID_MIN * 2, "{waits:?}");
        assert!(waits.is_sorted() && last >= LINGER_TRIAL_VALID_MAX && last < LINGER_TRIAL_VALID_MAX * 2, "{waits:?}");
        windows(&mut trial, &mut arrived, 2 * HALF, |_, lingers| if lingers { 120 } else { 100 }).await;
        assert_eq!((trial.lingers_long(), trial.valid_for), (true, LINGER_TRIAL_VALID_MIN));
    }
}
