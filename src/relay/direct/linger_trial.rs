//! Measures whether more rows arrive when batches linger.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    LINGER_LOAD_SHARE_MIN, LINGER_LOAD_WINDOW, LINGER_LONG_GAIN_MIN, LINGER_SHORT_GAIN_MIN, LINGER_TRIAL_DELAY,
    LINGER_TRIAL_PAIRS, LINGER_TRIAL_VALID_MAX, LINGER_TRIAL_VALID_MIN, LINGER_TRIAL_WINDOW, LINGER_TRIAL_WINS_MIN,
};

/// How long batches linger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linger {
    None,
    Short,
    Long,
}

/// Alternates windows of a longer and a shorter linger for a while, then keeps the better one.
///
/// Clients that share the processors with the relay and wait for their own answers commit more when the relay uses
/// less. Rows on a schedule arrive anyway, so they are spared the wait. First a short linger is compared with none, and
/// if that helps, a long one with the short one. A linger that helps frees the processors, so their load no longer tells
/// when to end it. It ends when fewer rows arrive.
#[derive(Debug)]
pub(in crate::relay) struct LingerTrial {
    stage: Stage,
    kept: Linger,
    /// How long the last result counts. Doubles each time the result stays the same.
    valid_for: Duration,
    last_result: Option<Linger>,
}

#[derive(Debug)]
enum Stage {
    Trying {
        longer: Linger,
        window: Window,
        pairs: Pairs,
    },
    /// Until the next trial; with the load, if a linger was found to help.
    Waiting {
        until: Instant,
        load: Option<Load>,
    },
}

/// The load for which a linger was found to help.
#[derive(Debug, Clone, Copy)]
struct Load {
    rate_min: f64,
    /// When counting began, and how many rows had arrived by then.
    counted: (Instant, u64),
}

/// A window of one linger.
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
    /// The first window of a pair, with the shorter linger.
    shorter: Option<f64>,
    sum_shorter: f64,
    sum_longer: f64,
    count: u32,
    /// In how many pairs more rows arrived with the longer linger.
    wins: u32,
}

impl Linger {
    fn longer(self) -> Option<Self> {
        match self {
            Self::None => Some(Self::Short),
            Self::Short => Some(Self::Long),
            Self::Long => None,
        }
    }

    fn shorter(self) -> Self {
        match self {
            Self::None | Self::Short => Self::None,
            Self::Long => Self::Short,
        }
    }

    /// The factor by which more rows must arrive than with the next shorter linger.
    fn gain_min(self) -> f64 {
        match self {
            Self::None | Self::Short => LINGER_SHORT_GAIN_MIN,
            Self::Long => LINGER_LONG_GAIN_MIN,
        }
    }
}

impl LingerTrial {
    pub(in crate::relay) fn new(now: Instant) -> Self {
        let stage = Stage::Waiting { until: now + LINGER_TRIAL_DELAY, load: None };
        Self { stage, kept: Linger::None, valid_for: LINGER_TRIAL_VALID_MIN, last_result: None }
    }

    /// How long batches currently linger.
    pub(super) fn linger(&self) -> Linger {
        match &self.stage {
            Stage::Trying { longer, pairs, .. } if pairs.shorter.is_some() => *longer,
            Stage::Trying { longer, .. } => longer.shorter(),
            Stage::Waiting { .. } => self.kept,
        }
    }

    /// Whether batches do not linger, and nothing is being tried.
    pub(super) fn is_idle(&self) -> bool {
        self.kept == Linger::None && matches!(self.stage, Stage::Waiting { .. })
    }

    /// Notes how many rows had arrived by now.
    pub(in crate::relay) fn note(&mut self, now: Instant, arrived: u64) {
        match &mut self.stage {
            Stage::Waiting { until, .. } if now >= *until => {
                // What is kept has to show again that it helps.
                let longer = if self.kept == Linger::None { Linger::Short } else { self.kept };
                self.stage = Stage::trying(longer, now);
            }
            Stage::Waiting { load, .. } => {
                if load.as_mut().is_some_and(|load| load.has_ended(now, arrived)) {
                    *self = Self::new(now);
                }
            }
            Stage::Trying { longer, window, pairs } => {
                let Some(rate) = window.rate(now, arrived) else { return };
                *window = Window::new(now);
                pairs.add(rate);
                if let Some(helps) = pairs.result(longer.gain_min()) {
                    let rate = if helps { pairs.sum_longer } else { pairs.sum_shorter } / f64::from(pairs.count);
                    self.kept = if helps { *longer } else { longer.shorter() };
                    match self.kept.longer().filter(|_| helps) {
                        Some(longer) => self.stage = Stage::trying(longer, now),
                        None => self.wait(rate, now, arrived),
                    }
                }
            }
        }
    }

    /// Waits for the next trial, while rows arrive at about this `rate`.
    fn wait(&mut self, rate: f64, now: Instant, arrived: u64) {
        let is_known = self.last_result == Some(self.kept);
        self.valid_for =
            if is_known { (self.valid_for * 2).min(LINGER_TRIAL_VALID_MAX) } else { LINGER_TRIAL_VALID_MIN };
        self.last_result = Some(self.kept);
        let load = Load { rate_min: rate * LINGER_LOAD_SHARE_MIN, counted: (now, arrived) };
        self.stage =
            Stage::Waiting { until: now + self.valid_for, load: Some(load).filter(|_| self.kept != Linger::None) };
    }
}

impl Stage {
    fn trying(longer: Linger, now: Instant) -> Self {
        Self::Trying { longer, window: Window::new(now), pairs: Pairs::default() }
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
    /// Windows alternate: the shorter linger, then the longer one of its pair.
    fn add(&mut self, rate: f64) {
        let Some(shorter) = self.shorter.take() else {
            self.shorter = Some(rate);
            return;
        };
        self.sum_shorter += shorter;
        self.sum_longer += rate;
        self.count += 1;
        self.wins += u32::from(rate > shorter);
    }

    /// Whether the longer linger helps, once that is known; at half time if it is clear. Not by the sums alone: a
    /// checkpoint or a broker pause falls into one window and says nothing about lingers.
    fn result(&self, gain_min: f64) -> Option<bool> {
        let brings_more = self.sum_longer >= self.sum_shorter * gain_min;
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

    /// A trial, and the rows that arrive.
    struct Trial {
        trial: LingerTrial,
        arrived: u64,
    }

    impl Trial {
        /// Which has just begun.
        async fn begin() -> Self {
            let trial = LingerTrial::new(Instant::now());
            tokio::time::advance(LINGER_TRIAL_DELAY).await;
            let mut this = Self { trial, arrived: 0 };
            this.trial.note(Instant::now(), 0);
            this
        }

        /// Notes `count` windows. `rows` gives the rows of a window from its number and its linger. Returns how many
        /// did not linger, lingered for a short time, and for a long one.
        async fn windows(&mut self, count: u32, mut rows: impl FnMut(u32, Linger) -> u64) -> [u32; 3] {
            let mut lingers = [0; 3];
            for window in 0..count {
                let linger = self.trial.linger();
                lingers[linger as usize] += 1;
                let rows = rows(window, linger);
                for _ in 0..2 {
                    self.arrived += rows;
                    tokio::time::advance(LINGER_TRIAL_WINDOW / 2).await;
                    self.trial.note(Instant::now(), self.arrived);
                }
            }
            lingers
        }

        fn is_trying(&self) -> bool {
            matches!(self.trial.stage, Stage::Trying { .. })
        }
    }

    /// As many rows as in `of`, for none, short and long.
    fn rows(of: [u64; 3]) -> impl Fn(u32, Linger) -> u64 {
        move |_, linger| of[linger as usize]
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_at_once_and_nothing_lingers_until_then() {
        let (mut trial, began) = (LingerTrial::new(Instant::now()), Instant::now());
        while trial.is_idle() {
            assert_eq!(trial.linger(), Linger::None);
            tokio::time::advance(LINGER_TRIAL_WINDOW).await;
            trial.note(Instant::now(), 0);
        }
        assert!(began.elapsed() >= LINGER_TRIAL_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clear_result_needs_half_the_windows_and_a_longer_linger_is_tried_only_behind_one_that_helps() {
        let cases = [
            ([100, 100, 200], Linger::None, [2 * HALF, 0]),
            ([100, 90, 200], Linger::None, [2 * HALF, 0]),
            ([100, 110, 110], Linger::Short, [2 * HALF, 2 * HALF]),
            ([100, 110, 130], Linger::Long, [2 * HALF, 2 * HALF]),
        ];
        for (of, kept, windows) in cases {
            let mut trial = Trial::begin().await;
            let mut lingers = [0; 3];
            for count in windows {
                assert_eq!(trial.is_trying(), count > 0, "{of:?}");
                let further = trial.windows(count, rows(of)).await;
                lingers = std::array::from_fn(|of| lingers[of] + further[of]);
            }
            assert_eq!((trial.trial.linger(), trial.is_trying()), (kept, false), "{of:?}");
            let with_long = windows[1] / 2;
            assert_eq!(lingers, [HALF, HALF + with_long, with_long], "{of:?}: every other window has the longer one");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_gain_is_measured_to_the_end_and_rejected() {
        let mut trial = Trial::begin().await;
        let small = rows([100, 102, 0]);
        trial.windows(2 * LINGER_TRIAL_PAIRS - 1, &small).await;
        assert!(trial.is_trying());
        trial.windows(1, &small).await;
        assert_eq!((trial.is_trying(), trial.trial.linger()), (false, Linger::None));
    }

    #[tokio::test(start_paused = true)]
    async fn one_window_that_stands_out_decides_nothing() {
        let mut trial = Trial::begin().await;
        let rows = |window, linger| if window == 3 && linger == Linger::Short { 900 } else { 100 };
        trial.windows(2 * LINGER_TRIAL_PAIRS, rows).await;
        assert_eq!((trial.is_trying(), trial.trial.linger()), (false, Linger::None));
    }

    /// Rows that were held up arrive in the first half of the next window.
    #[tokio::test(start_paused = true)]
    async fn late_rows_count_for_no_window() {
        let Trial { mut trial, mut arrived } = Trial::begin().await;
        for _ in 0..2 * HALF {
            arrived += if trial.linger() == Linger::None { 50 } else { 150 };
            tokio::time::advance(LINGER_TRIAL_WINDOW / 2).await;
            trial.note(Instant::now(), arrived);
            arrived += 100;
            tokio::time::advance(LINGER_TRIAL_WINDOW / 2).await;
            trial.note(Instant::now(), arrived);
        }
        assert!(trial.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn lingers_end_when_less_than_half_as_many_rows_arrive_and_no_pause_ends_them() {
        let in_load_window = LINGER_LOAD_WINDOW.div_duration_f64(LINGER_TRIAL_WINDOW).ceil() as u32;
        for (of, kept) in [([100, 120, 120], Linger::Short), ([80, 100, 120], Linger::Long)] {
            let mut trial = Trial::begin().await;
            trial.windows(4 * HALF, rows(of)).await;
            assert_eq!((trial.trial.linger(), trial.trial.is_idle()), (kept, false));
            trial.windows(in_load_window, |window, _| if window < 2 { 0 } else { 120 }).await;
            trial.windows(in_load_window, |_, _| 61).await;
            assert_eq!(trial.trial.linger(), kept);
            for _ in 0..2 * in_load_window {
                if !trial.trial.is_idle() {
                    trial.windows(1, |_, _| 59).await;
                }
            }
            assert!(trial.trial.is_idle(), "{kept:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_tried_again_ever_less_often_and_a_change_is_noticed() {
        let mut trial = Trial::begin().await;
        let mut waits = Vec::new();
        for _ in 0..6 {
            trial.windows(2 * HALF, |_, _| 100).await;
            let from = Instant::now();
            while !trial.is_trying() {
                tokio::time::advance(LINGER_TRIAL_WINDOW).await;
                trial.trial.note(Instant::now(), trial.arrived);
            }
            waits.push(from.elapsed());
        }
        let (first, last) = (waits[0], waits[waits.len() - 1]);
        assert!(first >= LINGER_TRIAL_VALID_MIN && first < LINGER_TRIAL_VALID_MIN * 2, "{waits:?}");
        assert!(waits.is_sorted() && last >= LINGER_TRIAL_VALID_MAX && last < LINGER_TRIAL_VALID_MAX * 2, "{waits:?}");
        trial.windows(4 * HALF, rows([80, 100, 120])).await;
        assert_eq!((trial.trial.linger(), trial.trial.valid_for), (Linger::Long, LINGER_TRIAL_VALID_MIN));
    }

    /// A short linger that is kept is compared with none again, and a long one with the short one.
    #[tokio::test(start_paused = true)]
    async fn what_is_kept_has_to_show_again_that_it_helps() {
        for (of, kept, then) in
            [([100, 120, 120], Linger::Short, Linger::None), ([80, 100, 120], Linger::Long, Linger::Short)]
        {
            let mut trial = Trial::begin().await;
            trial.windows(4 * HALF, rows(of)).await;
            assert_eq!(trial.trial.linger(), kept);
            while !trial.is_trying() {
                trial.windows(1, rows(of)).await;
            }
            trial.windows(2 * HALF, |_, _| 120).await;
            assert_eq!((trial.trial.linger(), trial.is_trying()), (then, false));
        }
    }
}
