//! From where a lane is read again, because a row may still appear there behind higher ids. No input or output.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::limits::{LANE_FLOORS_MAX, LANE_OPEN_DURATION, LANE_OPEN_DURATION_MAX};
use crate::store::Horizon;

/// An id is given before its row can be seen, so a page may go past rows of transactions that are still open. Read from
/// behind itself only, the lane would bring a later row of such a key, enqueued after that transaction's COMMIT, before the
/// one that was passed.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    id: i64,
    /// Transactions with lower numbers have ended.
    ended_below: u64,
    /// Ids that become the floor, each at its time.
    ahead: VecDeque<Ahead>,
}

#[derive(Debug, Clone, Copy)]
struct Ahead {
    id: i64,
    /// Not before then: an id may be drawn a moment before its transaction has a number.
    from: BootInstant,
    /// Not while one is open that began below this number: in a process that hangs, for instance.
    begun_below: u64,
    /// Then, whatever is open.
    at_last: BootInstant,
}

impl Ahead {
    fn is_reached(&self, now: BootInstant, ended_below: u64) -> bool {
        now >= self.at_last || (now >= self.from && self.begun_below <= ended_below)
    }

    /// One for two: later than it might be, and never sooner.
    fn or_later(&self, other: &Self) -> Self {
        Self {
            id: self.id.max(other.id),
            from: self.from.max(other.from),
            begun_below: self.begun_below.max(other.begun_below),
            at_last: self.at_last.max(other.at_last),
        }
    }
}

impl Floor {
    /// Notes a page that was there at `now`: its last id, how long ago the youngest of its rows was enqueued, and which
    /// transactions it could see, where that is known.
    pub(crate) fn note(&mut self, last: i64, youngest: Duration, horizon: Option<Horizon>, now: BootInstant) {
        self.ended_below = horizon.map_or(self.ended_below, |horizon| self.ended_below.max(horizon.ended_below));
        self.id = self.at(now);
        self.ahead.retain(|ahead| !ahead.is_reached(now, self.ended_below) && ahead.id > self.id);
        let ahead = Ahead {
            id: last,
            from: now + LANE_OPEN_DURATION.saturating_sub(youngest),
            begun_below: horizon.map_or(0, |horizon| horizon.begun_below),
            at_last: now + LANE_OPEN_DURATION_MAX.saturating_sub(youngest),
        };
        let is_full = self.ahead.len() >= LANE_FLOORS_MAX;
        match self.ahead.back_mut() {
            Some(newest) if is_full => *newest = newest.or_later(&ahead),
            _ => self.ahead.push_back(ahead),
        }
    }

    /// The id below which no row is expected to appear any more.
    pub(crate) fn at(&self, now: BootInstant) -> i64 {
        let reached = self.ahead.iter().filter(|ahead| ahead.is_reached(now, self.ended_below)).map(|ahead| ahead.id);
        reached.fold(self.id, i64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_boot(Duration::from_secs(100));

    #[test]
    fn it_follows_when_the_youngest_row_is_old_enough() {
        let mut floor = Floor::default();
        floor.note(7, LANE_OPEN_DURATION / 2, None, START);
        assert_eq!(floor.at(START), 0);
        assert_eq!(floor.at(START + LANE_OPEN_DURATION / 2), 7);
        floor.note(9, Duration::MAX, None, START);
        assert_eq!(floor.at(START), 9, "a backlog is not read twice");
    }

    #[test]
    fn it_never_comes_too_soon_however_often_it_is_told() {
        let mut floor = Floor::default();
        let tick = LANE_OPEN_DURATION / 1_000;
        let mut now = START;
        for id in 1..5_000 {
            now = now + tick;
            floor.note(id, Duration::ZERO, None, now);
            assert!(floor.at(now) <= (id - 1_000).max(0), "{id}");
            assert!(floor.ahead.len() <= LANE_FLOORS_MAX);
        }
        assert!(floor.at(now) > 2_000, "it stands still: {floor:?}");
    }

    fn horizon(ended_below: u64, begun_below: u64) -> Option<Horizon> {
        Some(Horizon { ended_below, begun_below })
    }

    #[test]
    fn it_waits_for_transactions_that_were_open_and_for_no_others() {
        let mut floor = Floor::default();
        floor.note(7, Duration::ZERO, horizon(10, 15), START);
        let later = START + LANE_OPEN_DURATION;
        assert_eq!(floor.at(later), 0, "one below 15 is open");
        floor.note(9, Duration::ZERO, horizon(14, 20), later);
        assert_eq!(floor.at(later), 0);
        floor.note(9, Duration::ZERO, horizon(15, 30), later);
        assert_eq!(floor.at(later), 7);
        assert_eq!(floor.at(later + LANE_OPEN_DURATION), 7, "one below 20 is open");
        assert_eq!(floor.at(later + LANE_OPEN_DURATION_MAX), 9, "and keeps it for so long at most");
    }

    #[test]
    fn it_waits_no_less_where_nothing_is_open() {
        let mut floor = Floor::default();
        floor.note(7, Duration::ZERO, horizon(15, 15), START);
        assert_eq!(
            floor.at(START + LANE_OPEN_DURATION / 2),
            0,
            "an id may be drawn before its transaction has a number"
        );
        assert_eq!(floor.at(START + LANE_OPEN_DURATION), 7);
    }

    #[test]
    fn one_that_stays_open_keeps_it_in_bounds() {
        let mut floor = Floor::default();
        let mut now = START;
        for id in 1..1_000 {
            now = now + LANE_OPEN_DURATION_MAX / 100;
            floor.note(id, Duration::ZERO, horizon(1, id.cast_unsigned() + 1), now);
            assert!(floor.at(now) <= (id - 100).max(0), "{id}: {floor:?}");
            assert!(floor.ahead.len() <= LANE_FLOORS_MAX);
        }
        floor.note(1_000, Duration::ZERO, horizon(2_000, 2_000), now);
        assert!(floor.at(now + LANE_OPEN_DURATION) >= 999, "it stands still: {floor:?}");
    }
}
