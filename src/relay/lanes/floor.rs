//! From where a lane is read again, because a row may still appear there behind higher ids. No input or output.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::limits::{LANE_FLOORS_MAX, LANE_OPEN_DURATION};

/// An id is given before its row can be seen, so a page may go past rows of transactions that are still open. Read from
/// behind itself only, the lane would bring a later row of such a key, enqueued after that transaction's COMMIT, before the
/// one that was passed.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    id: i64,
    /// Ids that become the floor, each at its time.
    ahead: VecDeque<(BootInstant, i64)>,
}

impl Floor {
    /// Notes a page that was there at `now`: its last id, and how long ago the youngest of its rows was enqueued.
    pub(crate) fn note(&mut self, last: i64, youngest: Duration, now: BootInstant) {
        self.id = self.at(now);
        self.ahead.retain(|(at, id)| *at > now && *id > self.id);
        let at = now + LANE_OPEN_DURATION.saturating_sub(youngest);
        let is_full = self.ahead.len() >= LANE_FLOORS_MAX;
        match self.ahead.back_mut() {
            // Later than it might be, and never sooner.
            Some(newest) if is_full => *newest = (at.max(newest.0), last.max(newest.1)),
            _ => self.ahead.push_back((at, last)),
        }
    }

    /// The id below which no row is expected to appear any more.
    pub(crate) fn at(&self, now: BootInstant) -> i64 {
        let reached = self.ahead.iter().filter(|(at, _)| *at <= now).map(|(_, id)| *id);
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
        floor.note(7, LANE_OPEN_DURATION / 2, START);
        assert_eq!(floor.at(START), 0);
        assert_eq!(floor.at(START + LANE_OPEN_DURATION / 2), 7);
        floor.note(9, Duration::MAX, START);
        assert_eq!(floor.at(START), 9, "a backlog is not read twice");
    }

    #[test]
    fn it_never_comes_too_soon_however_often_it_is_told() {
        let mut floor = Floor::default();
        let tick = LANE_OPEN_DURATION / 1_000;
        let mut now = START;
        for id in 1..5_000 {
            now = now + tick;
            floor.note(id, Duration::ZERO, now);
            assert!(floor.at(now) <= (id - 1_000).max(0), "{id}");
            assert!(floor.ahead.len() <= LANE_FLOORS_MAX);
        }
        assert!(floor.at(now) > 2_000, "it stands still: {floor:?}");
    }
}
