//! From where a lane is read again, because a row may still appear below higher ids. No input or output.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::limits::{
    LANE_OPEN_TRANSACTION_DURATION, LANE_OPEN_TRANSACTION_DURATION_MAX, LANE_OPEN_TRANSACTION_ROWS_MAX,
    LANE_OPEN_TRANSACTION_STEP, LANE_WATERMARK_STEPS_MAX,
};
use crate::store::Horizon;

/// An id is assigned before its row is visible, so a page may skip rows of transactions that are still open. If reading
/// continued from the last id, a later row of such a key, enqueued after that transaction's COMMIT, would come before
/// the skipped one.
#[derive(Debug, Default)]
pub(crate) struct LowWatermark {
    id: i64,
    /// All transactions with lower numbers have ended.
    ended_below: u64,
    /// Ids that become the low watermark, in ascending order.
    steps: VecDeque<WatermarkStep>,
}

/// A page that begins at the low watermark or before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoveredPage {
    /// The last id read, if there was a row.
    pub(crate) last: Option<i64>,
    /// Every visible row up to here was read.
    pub(crate) end: i64,
    /// How long ago the youngest of its rows was enqueued.
    pub(crate) youngest: Duration,
    /// Which transactions it could see, if that is known.
    pub(crate) horizon: Option<Horizon>,
    /// Rows of the topic that this node has seen so far, including this page.
    pub(crate) seen: u64,
    /// When the read began: it saw what was committed by then.
    pub(crate) began_at: BootInstant,
    /// When the read ended.
    pub(crate) ended_at: BootInstant,
}

#[derive(Debug, Clone, Copy)]
struct WatermarkStep {
    id: i64,
    seen: u64,
    noted_at: BootInstant,
    /// Not before then: an id may be assigned a moment before its transaction has a number.
    from: BootInstant,
    /// Not while a transaction with a lower number is open, for example in a process that hangs.
    begun_below: u64,
    /// At this time, whatever is open.
    at_last: BootInstant,
}

impl WatermarkStep {
    /// Merges two steps: the result may be later than either, and never sooner.
    fn or_later(&self, other: &Self) -> Self {
        Self {
            id: self.id.max(other.id),
            seen: self.seen.max(other.seen),
            noted_at: self.noted_at.min(other.noted_at),
            from: self.from.max(other.from),
            begun_below: self.begun_below.max(other.begun_below),
            at_last: self.at_last.max(other.at_last),
        }
    }
}

impl LowWatermark {
    /// The id below which no row is expected to appear any more.
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Notes a page. Only a page raises the low watermark, and not beyond its own end: rows below, from a transaction
    /// that has ended since, are in this page and in none before.
    pub(crate) fn note(&mut self, page: CoveredPage) {
        self.ended_below = page.horizon.map_or(0, |horizon| horizon.ended_below).max(self.ended_below);
        let is_reached = |step: &&WatermarkStep| {
            let is_closed = step.begun_below <= self.ended_below
                || page.seen.saturating_sub(step.seen) >= LANE_OPEN_TRANSACTION_ROWS_MAX;
            page.began_at >= step.at_last || (page.began_at >= step.from && is_closed)
        };
        let reached = self.steps.iter().filter(is_reached).map(|step| step.id.min(page.end));
        self.id = reached.fold(self.id, i64::max);
        self.steps.retain(|step| step.id > self.id);
        if let Some(last) = page.last {
            self.push_step(WatermarkStep {
                id: last,
                seen: page.seen,
                noted_at: page.ended_at,
                from: page.ended_at + LANE_OPEN_TRANSACTION_DURATION.saturating_sub(page.youngest),
                begun_below: page.horizon.map_or(0, |horizon| horizon.begun_below),
                at_last: page.ended_at + LANE_OPEN_TRANSACTION_DURATION_MAX.saturating_sub(page.youngest),
            });
        }
    }

    fn push_step(&mut self, step: WatermarkStep) {
        let is_full = self.steps.len() >= LANE_WATERMARK_STEPS_MAX;
        match self.steps.back_mut() {
            Some(newest) if is_full || step.noted_at < newest.noted_at + LANE_OPEN_TRANSACTION_STEP => {
                *newest = newest.or_later(&step);
            }
            _ => self.steps.push_back(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_boot(Duration::from_secs(100));

    fn page(last: i64, horizon: Option<(u64, u64)>, at: BootInstant) -> CoveredPage {
        let horizon = horizon.map(|(ended_below, begun_below)| Horizon { ended_below, begun_below });
        let (youngest, end) = (Duration::ZERO, i64::MAX);
        CoveredPage { last: Some(last), end, youngest, horizon, seen: 0, began_at: at, ended_at: at }
    }

    fn empty(at: BootInstant) -> CoveredPage {
        CoveredPage { last: None, youngest: Duration::MAX, ..page(0, None, at) }
    }

    #[test]
    fn it_follows_when_the_youngest_row_is_old_enough() {
        let mut low_watermark = LowWatermark::default();
        low_watermark.note(CoveredPage { youngest: LANE_OPEN_TRANSACTION_DURATION / 2, ..page(7, None, START) });
        assert_eq!(low_watermark.id(), 0);
        low_watermark.note(empty(START + LANE_OPEN_TRANSACTION_DURATION / 2));
        assert_eq!(low_watermark.id(), 7);
    }

    #[test]
    fn an_old_backlog_is_not_read_twice() {
        let mut low_watermark = LowWatermark::default();
        let old = |last| CoveredPage { youngest: Duration::MAX, ..page(last, Some((1, 9)), START) };
        low_watermark.note(old(9));
        low_watermark.note(old(18));
        assert_eq!(low_watermark.id(), 9);
    }

    #[test]
    fn it_goes_no_further_than_the_page_that_raises_it() {
        let mut low_watermark = LowWatermark::default();
        low_watermark.note(page(8_000, Some((10, 15)), START));
        let later = START + LANE_OPEN_TRANSACTION_DURATION;
        low_watermark.note(CoveredPage { end: 2_250, ..page(2_250, Some((20, 20)), later) });
        assert_eq!(low_watermark.id(), 2_250, "what ended has more rows behind it");
        low_watermark.note(CoveredPage { end: 7_000, ..page(7_000, Some((20, 20)), later) });
        assert_eq!(low_watermark.id(), 7_000);
        low_watermark.note(page(8_001, Some((20, 20)), later));
        assert_eq!(low_watermark.id(), 8_000);
    }

    #[test]
    fn a_page_that_was_requested_too_early_raises_nothing() {
        let mut low_watermark = LowWatermark::default();
        low_watermark.note(page(7, None, START));
        let later = START + LANE_OPEN_TRANSACTION_DURATION;
        low_watermark.note(CoveredPage { began_at: START + LANE_OPEN_TRANSACTION_DURATION / 2, ..empty(later) });
        assert_eq!(low_watermark.id(), 0);
        low_watermark.note(empty(later));
        assert_eq!(low_watermark.id(), 7);
    }

    #[test]
    fn it_is_never_too_early_however_often_it_is_updated() {
        let mut low_watermark = LowWatermark::default();
        let tick = LANE_OPEN_TRANSACTION_DURATION / 1_000;
        let mut now = START;
        for id in 1..5_000 {
            now = now + tick;
            low_watermark.note(page(id, None, now));
            assert!(low_watermark.id() <= (id - 1_000).max(0), "{id}");
            assert!(low_watermark.steps.len() <= LANE_WATERMARK_STEPS_MAX);
        }
        assert!(low_watermark.id() > 3_800, "it lags: {low_watermark:?}");
    }

    #[test]
    fn it_waits_for_transactions_that_were_open_and_for_no_others() {
        let mut low_watermark = LowWatermark::default();
        low_watermark.note(page(7, Some((10, 15)), START));
        let later = START + LANE_OPEN_TRANSACTION_DURATION;
        low_watermark.note(page(9, Some((14, 20)), later));
        assert_eq!(low_watermark.id(), 0, "one below 15 is open");
        low_watermark.note(page(9, Some((15, 30)), later));
        assert_eq!(low_watermark.id(), 7);
        low_watermark.note(page(9, Some((15, 40)), later + LANE_OPEN_TRANSACTION_DURATION));
        assert_eq!(low_watermark.id(), 7, "one below 20 is open");
        low_watermark.note(empty(later + LANE_OPEN_TRANSACTION_DURATION_MAX));
        assert_eq!(low_watermark.id(), 9, "and keeps it for so long at most");
    }

    #[test]
    fn it_waits_no_less_where_nothing_is_open() {
        let mut low_watermark = LowWatermark::default();
        low_watermark.note(page(7, Some((15, 15)), START));
        low_watermark.note(page(7, Some((16, 16)), START + LANE_OPEN_TRANSACTION_DURATION / 2));
        assert_eq!(low_watermark.id(), 0, "an id may be drawn before its transaction has a number");
        low_watermark.note(page(7, Some((16, 16)), START + LANE_OPEN_TRANSACTION_DURATION));
        assert_eq!(low_watermark.id(), 7);
    }

    #[test]
    fn one_that_stays_open_keeps_it_in_bounds() {
        let mut low_watermark = LowWatermark::default();
        let mut now = START;
        for id in 1..1_000 {
            now = now + LANE_OPEN_TRANSACTION_DURATION_MAX / 100;
            low_watermark.note(page(id, Some((1, id.cast_unsigned() + 1)), now));
            assert!(low_watermark.id() <= (id - 100).max(0), "{id}: {low_watermark:?}");
            assert!(low_watermark.id() >= id - 101, "{id}: {low_watermark:?}");
            assert!(low_watermark.steps.len() <= LANE_WATERMARK_STEPS_MAX);
        }
        now = now + LANE_OPEN_TRANSACTION_DURATION;
        low_watermark.note(page(1_000, Some((2_000, 2_000)), now));
        assert_eq!(low_watermark.id(), 999);
    }

    /// Each of these pages began so long ago that it reaches nothing.
    #[test]
    fn no_more_steps_are_kept_than_may_be_and_nothing_comes_sooner_for_it() {
        let mut low_watermark = LowWatermark::default();
        let steps = 2 * LANE_WATERMARK_STEPS_MAX as u32;
        for step in 0..steps {
            let at = START + LANE_OPEN_TRANSACTION_STEP * step;
            for id in [2 * i64::from(step) + 1, 2 * i64::from(step) + 2] {
                low_watermark.note(CoveredPage { began_at: START, ..page(id, None, at) });
            }
            assert_eq!(
                low_watermark.steps.len(),
                LANE_WATERMARK_STEPS_MAX.min(step as usize + 1),
                "one for what is noted in a step"
            );
        }
        let (last, end) =
            (2 * i64::from(steps), START + LANE_OPEN_TRANSACTION_STEP * (steps - 1) + LANE_OPEN_TRANSACTION_DURATION);
        low_watermark.note(empty(end - Duration::from_millis(1)));
        assert!(low_watermark.id() < last, "{}", low_watermark.id());
        low_watermark.note(empty(end));
        assert_eq!((low_watermark.id(), low_watermark.steps.len()), (last, 0));
    }

    #[test]
    fn a_long_transaction_has_at_most_one_page_read_again() {
        let mut low_watermark = LowWatermark::default();
        let mut now = START;
        for number in 0..100_u64 {
            now = now + LANE_OPEN_TRANSACTION_DURATION / 4;
            let (seen, id) = (number * LANE_OPEN_TRANSACTION_ROWS_MAX / 5, number.cast_signed() * 1_000_000);
            low_watermark.note(CoveredPage { seen, ..page(id, Some((1, 1_000)), now) });
            let is_kept = |page: i64| low_watermark.id() <= (number.cast_signed() - page).max(0) * 1_000_000;
            assert!(is_kept(5), "{number}: {low_watermark:?}");
            assert!(number < 8 || !is_kept(12), "{number}: {low_watermark:?}");
        }
    }
}
