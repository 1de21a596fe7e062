//! Tries out whether more rows arrive when groups rest for longer.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    REST_TRIAL_DELAY, REST_TRIAL_GAIN_MIN, REST_TRIAL_HOLD_MAX, REST_TRIAL_HOLD_MIN, REST_TRIAL_PAIRS,
    REST_TRIAL_WINDOW, REST_TRIAL_WINS_MIN,
};

/// Rests long in every other window for a while. Then it keeps to what did better.
///
/// Clients that share the processors with the relay and wait for their own answers commit more when the relay takes less. Rows that come
/// on a schedule come anyway; they are spared the wait.
#[derive(Debug)]
pub(super) struct RestTrial {
    rests_long: bool,
    stage: Stage,
    /// How long the last finding counts: twice as long each time that it is the same.
    hold: Duration,
    found: Option<bool>,
}

#[derive(Debug)]
enum Stage {
    Trying(Window, Pairs),
    Holding { until: Instant },
}

/// A stretch of time with long rests, or with short ones.
#[derive(Debug, Clone, Copy)]
struct Window {
    began_at: Instant,
    /// When counting began, and how many rows had arrived by then. What arrives first was late because of the window before.
    counted: Option<(Instant, u64)>,
}

/// Rows a second, of the windows so far.
#[derive(Debug, Default)]
struct Pairs {
    /// Of the first window of a pair, whose rests are short.
    short: Option<f64>,
    sum_short: f64,
    sum_long: f64,
    count: u32,
    /// In how many pairs the long rests brought more.
    wins: u32,
}

impl RestTrial {
    pub(super) fn new(now: Instant) -> Self {
        let stage = Stage::Holding { until: now + REST_TRIAL_DELAY };
        Self { rests_long: false, stage, hold: REST_TRIAL_HOLD_MIN, found: None }
    }

    /// Whether groups rest long now.
    pub(super) fn rests_long(&self) -> bool {
        self.rests_long
    }

    /// Notes how many rows had arrived by now.
    pub(super) fn note(&mut self, now: Instant, arrived: u64) {
        match &mut self.stage {
            Stage::Holding { until } if now >= *until => {
                self.rests_long = false;
                self.stage = Stage::Trying(Window::new(now), Pairs::default());
            }
            Stage::Holding { .. } => {}
            Stage::Trying(window, pairs) => {
                let Some(rate) = window.rate(now, arrived) else { return };
                *window = Window::new(now);
                pairs.add(rate, self.rests_long);
                self.rests_long = !self.rests_long;
                if let Some(helps) = pairs.finding() {
                    self.hold(helps, now);
                }
            }
        }
    }

    fn hold(&mut self, helps: bool, now: Instant) {
        let is_known = self.found == Some(helps);
        self.hold = if is_known { (self.hold * 2).min(REST_TRIAL_HOLD_MAX) } else { REST_TRIAL_HOLD_MIN };
        self.found = Some(helps);
        self.rests_long = helps;
        self.stage = Stage::Holding { until: now + self.hold };
    }
}

impl Window {
    fn new(now: Instant) -> Self {
        Self { began_at: now, counted: None }
    }

    /// Rows a second, when it is over.
    fn rate(&mut self, now: Instant, arrived: u64) -> Option<f64> {
        if now - self.began_at < REST_TRIAL_WINDOW / 2 {
            return None;
        }
        let (from, before) = *self.counted.get_or_insert((now, arrived));
        let is_over = now - self.began_at >= REST_TRIAL_WINDOW && now > from;
        is_over.then(|| arrived.saturating_sub(before) as f64 / (now - from).as_secs_f64())
    }
}

impl Pairs {
    fn add(&mut self, rate: f64, rests_long: bool) {
        if !rests_long {
            self.short = Some(rate);
        } else if let Some(short) = self.short.take() {
            self.sum_short += short;
            self.sum_long += rate;
            self.count += 1;
            self.wins += u32::from(rate > short);
        }
    }

    /// Whether long rests help, once that is known: at half time where it is plain. Not by the sums alone: a checkpoint or a pause of
    /// the broker falls into one window and says nothing of rests.
    fn finding(&self) -> Option<bool> {
        let brings_more = self.sum_long >= self.sum_short * REST_TRIAL_GAIN_MIN;
        match self.count {
            REST_TRIAL_PAIRS.. => Some(brings_more && self.wins >= REST_TRIAL_WINS_MIN),
            HALF if self.wins == HALF && brings_more => Some(true),
            HALF if self.wins <= HALF / 2 => Some(false),
            _ => None,
        }
    }
}

/// Pairs after which a plain finding is enough.
const HALF: u32 = REST_TRIAL_PAIRS / 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes `count` windows, in which `rows` come, by the window's number and whether it rests long. Returns how many did.
    async fn windows(
        trial: &mut RestTrial,
        arrived: &mut u64,
        count: u32,
        mut rows: impl FnMut(u32, bool) -> u64,
    ) -> u32 {
        let mut rested = 0;
        for window in 0..count {
            rested += u32::from(trial.rests_long());
            let rows = rows(window, trial.rests_long());
            for _ in 0..2 {
                *arrived += rows;
                tokio::time::advance(REST_TRIAL_WINDOW / 2).await;
                trial.note(Instant::now(), *arrived);
            }
        }
        rested
    }

    /// One that begins to try.
    async fn trial() -> (RestTrial, u64) {
        let mut trial = RestTrial::new(Instant::now());
        tokio::time::advance(REST_TRIAL_DELAY).await;
        trial.note(Instant::now(), 0);
        (trial, 0)
    }

    fn is_trying(trial: &RestTrial) -> bool {
        matches!(trial.stage, Stage::Trying(..))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_at_once() {
        let (mut trial, began) = (RestTrial::new(Instant::now()), Instant::now());
        while !is_trying(&trial) {
            tokio::time::advance(REST_TRIAL_WINDOW).await;
            trial.note(Instant::now(), 0);
        }
        assert!(began.elapsed() >= REST_TRIAL_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plain_finding_needs_half_the_windows_and_every_other_of_them_rests() {
        for (with, helps) in [(120, true), (100, false), (90, false)] {
            let (mut trial, mut arrived) = trial().await;
            let rested = windows(&mut trial, &mut arrived, 2 * HALF, |_, rests| if rests { with } else { 100 }).await;
            assert_eq!((rested, is_trying(&trial), trial.rests_long()), (HALF, false, helps), "{with}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_gain_that_is_small_is_looked_at_to_the_end_and_is_none() {
        let (mut trial, mut arrived) = trial().await;
        let rows = |_, rests| if rests { 105 } else { 100 };
        windows(&mut trial, &mut arrived, 2 * REST_TRIAL_PAIRS - 1, rows).await;
        assert!(is_trying(&trial));
        windows(&mut trial, &mut arrived, 1, rows).await;
        assert_eq!((is_trying(&trial), trial.rests_long()), (false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn one_window_that_stands_out_decides_nothing() {
        let (mut trial, mut arrived) = trial().await;
        let rows = |window, rests| if window == 3 && rests { 900 } else { 100 };
        windows(&mut trial, &mut arrived, 2 * REST_TRIAL_PAIRS, rows).await;
        assert_eq!((is_trying(&trial), trial.rests_long()), (false, false));
    }

    /// Rows that were held up come in the first half of the next window.
    #[tokio::test(start_paused = true)]
    async fn what_comes_late_counts_for_no_window() {
        let (mut trial, mut arrived) = trial().await;
        for _ in 0..2 * HALF {
            arrived += if trial.rests_long() { 150 } else { 50 };
            tokio::time::advance(REST_TRIAL_WINDOW / 2).await;
            trial.note(Instant::now(), arrived);
            arrived += 100;
            tokio::time::advance(REST_TRIAL_WINDOW / 2).await;
            trial.note(Instant::now(), arrived);
        }
        assert_eq!((is_trying(&trial), trial.rests_long()), (false, false));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_is_asked_again_ever_more_seldom_and_a_change_is_heard() {
        let (mut trial, mut arrived) = trial().await;
        let mut held = Vec::new();
        for _ in 0..6 {
            windows(&mut trial, &mut arrived, 2 * HALF, |_, _| 100).await;
            let from = Instant::now();
            while !is_trying(&trial) {
                tokio::time::advance(REST_TRIAL_WINDOW).await;
                trial.note(Instant::now(), arrived);
            }
            held.push(from.elapsed());
        }
        let (first, last) = (held[0], held[held.len() - 1]);
        assert!(first >= REST_TRIAL_HOLD_MIN && first < REST_TRIAL_HOLD_MIN * 2, "{held:?}");
        assert!(held.is_sorted() && last >= REST_TRIAL_HOLD_MAX && last < REST_TRIAL_HOLD_MAX * 2, "{held:?}");
        windows(&mut trial, &mut arrived, 2 * HALF, |_, rests| if rests { 120 } else { 100 }).await;
        assert_eq!((trial.rests_long(), trial.hold), (true, REST_TRIAL_HOLD_MIN));
    }
}
