//! Where the claims of a topic begin: at the watermark, or in the middle of a traversal. Losing all of it does no harm.

use std::time::Duration;

use crate::clock::BootInstant;
use crate::store::{Claim, DueWatermark, PollRange};

/// The position of claims in a backlog. Claims traverse it: each begins where the last one ended, so it does not walk over rows
/// that other workers have locked or removed.
///
/// A traversal ends after a while, because it skips locked rows. The next claim begins at the watermark and starts a new
/// traversal. It walks over the dead index entries of all removed rows, so only one claim does this. The others continue the old
/// traversal until that claim is back, for another `traversal_max` at most. Before, every worker started anew: all of them walked
/// over the same entries, and nothing was sent for 130 ms of each second.
#[derive(Debug, Default)]
pub(in crate::relay) struct ClaimCursor {
    /// Never reset: without it, a claim or a poll would walk over all dead index entries. If that exceeded its time-out, so
    /// would the next one. A full scan finds rows below it and sets it back.
    watermark: Option<DueWatermark>,
    traversal: Option<Traversal>,
    /// The number of the current traversal, or the lowest one that may come. Claims of a lower number are ignored.
    number: u64,
    /// The number of the next traversal, including one that a claim from the watermark is about to begin.
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Traversal {
    reached: DueWatermark,
    began_at: BootInstant,
}

/// Where a claim begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimStart {
    pub(crate) after: Option<DueWatermark>,
    /// Whether it continues a traversal. Then rows that the traversal skipped, or that were committed late, are below.
    pub(crate) in_traversal: bool,
    /// The number of the traversal, current or to begin.
    number: u64,
}

impl ClaimCursor {
    /// Where to claim from: the current traversal, for `traversal_max` at most, then the watermark.
    pub(in crate::relay) fn start(&mut self, now: BootInstant, traversal_max: Duration) -> ClaimStart {
        if let Some(traversal) = &mut self.traversal {
            if now < traversal.began_at + traversal_max {
                let after = self.watermark.max(Some(traversal.reached));
                return ClaimStart { after, in_traversal: true, number: self.number };
            }
            traversal.began_at = now;
            self.next += 1;
        }
        ClaimStart { after: self.watermark, in_traversal: false, number: self.next }
    }

    /// Notes the range that a claim covered.
    pub(in crate::relay) fn note(&mut self, from: ClaimStart, claim: &Claim, now: BootInstant) {
        // A claim that began above a row which a poll has found since would hide that row.
        if !from.in_traversal && from.after <= self.watermark {
            self.watermark = claim.watermark.or(self.watermark);
        }
        match claim.reached {
            _ if claim.found_all => self.end(from),
            Some(reached) => self.reach(from, reached, now),
            // The next claim begins at the watermark again and does not continue a finished traversal.
            None if !from.in_traversal => self.end(from),
            None => {}
        }
    }

    fn reach(&mut self, from: ClaimStart, reached: DueWatermark, now: BootInstant) {
        match &mut self.traversal {
            _ if from.number < self.number => {}
            Some(traversal) if from.number == self.number => traversal.reached = traversal.reached.max(reached),
            _ => {
                self.traversal = Some(Traversal { reached, began_at: now });
                self.number = from.number;
            }
        }
    }

    /// A claim reached the end of the due rows, or its end is unknown. That ends the traversal, not the topic: the rows that
    /// the traversal skipped come next.
    fn end(&mut self, from: ClaimStart) {
        if from.in_traversal && from.number == self.number {
            self.traversal = None;
            self.number += 1;
            self.next = self.next.max(self.number);
        } else if from.number > self.number {
            self.traversal = None;
            self.number = from.number;
        }
    }

    /// Ends the traversal, which would skip rows that were given back.
    pub(in crate::relay) fn stop(&mut self) {
        self.traversal = None;
        self.next += 1;
        self.number = self.next;
    }

    /// Notes the range that a poll covered. A poll that began at the watermark or below may also set it back: a row was
    /// committed late, or the database's clock went back.
    pub(in crate::relay) fn note_poll(&mut self, range: &PollRange) {
        if self.watermark.is_none_or(|watermark| range.after <= watermark) {
            self.watermark = Some(range.watermark);
        }
    }

    /// Where a cheap poll begins; `None` before the first poll.
    pub(in crate::relay) fn watermark(&self) -> Option<DueWatermark> {
        self.watermark
    }
}

#[cfg(test)]
pub(in crate::relay) mod tests {
    use super::*;
    use crate::clock::{Clock as _, SystemClock};
    use crate::store::{ClaimHandle, ClaimMode, Closed, RowKey, StoreError};

    const TRAVERSAL_MAX: Duration = Duration::from_secs(1);

    #[derive(Debug)]
    struct NoBatch;

    #[async_trait::async_trait]
    impl ClaimHandle for NoBatch {
        async fn close(self: Box<Self>, _: &[RowKey], _: &[RowKey]) -> Result<Closed, StoreError> {
            Ok(Closed::default())
        }
    }

    /// The result of a claim, with its range.
    pub(crate) fn claim_result(watermark: Option<i64>, reached: Option<i64>, found_all: bool) -> Claim {
        Claim {
            rows: Vec::new(),
            mode: ClaimMode::Locked,
            watermark: watermark.map(DueWatermark),
            reached: reached.map(DueWatermark),
            found_all,
            handle: Box::new(NoBatch),
        }
    }

    struct World {
        claim_cursor: ClaimCursor,
        now: BootInstant,
    }

    impl World {
        fn new() -> Self {
            Self { claim_cursor: ClaimCursor::default(), now: SystemClock.now() }
        }

        fn from(&mut self) -> ClaimStart {
            self.claim_cursor.start(self.now, TRAVERSAL_MAX)
        }

        fn reached(&mut self, from: ClaimStart, watermark: i64, reached: i64) {
            self.claim_cursor.note(from, &claim_result(Some(watermark), Some(reached), false), self.now);
        }

        fn found_all(&mut self, from: ClaimStart) {
            self.claim_cursor.note(from, &claim_result(None, None, true), self.now);
        }

        /// In the middle of a traversal that has ended, with the watermark at 10 and the traversal at 1,000.
        fn at_the_end_of_a_traversal() -> Self {
            let mut world = Self::new();
            let first = world.from();
            assert_eq!((first.after, first.in_traversal), (None, false));
            world.reached(first, 10, 1_000);
            world.now = world.now + TRAVERSAL_MAX;
            world
        }

        /// One claim begins the next traversal, another continues the old one.
        fn between_two_traversals() -> (Self, ClaimStart, ClaimStart) {
            let mut world = Self::at_the_end_of_a_traversal();
            let (next, straggler) = (world.is_at(10, false), world.is_at(1_000, true));
            (world, next, straggler)
        }

        fn is_at(&mut self, after: i64, in_traversal: bool) -> ClaimStart {
            let from = self.from();
            assert_eq!((from.after, from.in_traversal), (Some(DueWatermark(after)), in_traversal));
            from
        }
    }

    /// With two workers, one is usually in the middle of a claim when the traversal ends.
    #[test]
    fn one_claim_begins_the_next_traversal_and_the_others_go_on_in_the_old_one() {
        let (mut world, next, straggler) = World::between_two_traversals();
        world.reached(straggler, 11, 1_040);
        let straggler = world.is_at(1_040, true);
        world.reached(next, 12, 900);
        world.is_at(900, true);
        world.reached(straggler, 11, 1_080);
        world.found_all(straggler);
        world.is_at(900, true);
    }

    #[test]
    fn a_traversal_that_ends_while_the_next_begins_does_not_end_that_one() {
        let (mut world, next, straggler) = World::between_two_traversals();
        let another = world.is_at(1_000, true);
        world.found_all(straggler);
        world.is_at(10, false);
        world.reached(another, 11, 2_000);
        world.is_at(10, false);
        world.reached(next, 12, 900);
        world.is_at(900, true);
    }

    #[test]
    fn a_claim_from_the_watermark_that_finds_all_ends_the_old_traversal() {
        let (mut world, next, straggler) = World::between_two_traversals();
        world.found_all(next);
        world.reached(straggler, 11, 1_040);
        world.is_at(10, false);
    }

    #[test]
    fn a_claim_that_is_slower_than_a_traversal_still_counts() {
        let mut world = World::at_the_end_of_a_traversal();
        let slow = world.is_at(10, false);
        world.now = world.now + TRAVERSAL_MAX;
        let second = world.is_at(10, false);
        world.is_at(1_000, true);
        world.reached(slow, 12, 900);
        world.is_at(900, true);
        world.reached(second, 12, 800);
        world.is_at(800, true);
    }

    /// A poll covers what is between `after` and the first row behind it.
    fn poll_range(after: i64, watermark: i64) -> PollRange {
        PollRange { topic: "orders".into(), after: DueWatermark(after), watermark: DueWatermark(watermark) }
    }

    #[test]
    fn a_row_that_a_full_scan_finds_below_is_claimed_next() {
        let mut world = World::new();
        world.claim_cursor.note_poll(&poll_range(i64::MIN, 10));
        let open_claim = world.is_at(10, false);
        world.claim_cursor.note_poll(&poll_range(i64::MIN, 4));
        world.found_all(open_claim);
        world.claim_cursor.note(open_claim, &claim_result(Some(12), None, true), world.now);
        world.is_at(4, false);
    }

    #[test]
    fn a_poll_from_a_watermark_that_was_set_back_meanwhile_is_ignored() {
        let mut world = World::new();
        for (after, watermark) in [(i64::MIN, 10), (10, 12), (12, 14), (i64::MIN, 4), (14, 16)] {
            world.claim_cursor.note_poll(&poll_range(after, watermark));
        }
        world.is_at(4, false);
        world.claim_cursor.note_poll(&poll_range(4, 18));
        world.is_at(18, false);
    }

    /// Rows written from now on become due below the old watermark.
    #[test]
    fn a_clock_that_goes_back_takes_the_watermark_along() {
        let mut world = World::new();
        world.claim_cursor.note_poll(&poll_range(i64::MIN, 100));
        world.claim_cursor.note_poll(&poll_range(100, 40));
        world.is_at(40, false);
    }

    /// Also if a row has stood at the watermark for longer than the scan went back.
    #[test]
    fn a_scan_of_limited_depth_ignores_earlier_rows() {
        let mut world = World::new();
        world.claim_cursor.note_poll(&poll_range(i64::MIN, 10));
        world.claim_cursor.note_poll(&poll_range(50, 100));
        world.is_at(10, false);
        world.claim_cursor.note_poll(&poll_range(5, 8));
        world.is_at(8, false);
    }

    #[test]
    fn a_traversal_that_came_to_the_end_is_followed_by_another() {
        let mut world = World::new();
        let first = world.from();
        world.reached(first, 10, 1_000);
        let last = world.is_at(1_000, true);
        world.found_all(last);
        let next = world.is_at(10, false);
        world.reached(next, 12, 2_000);
        world.is_at(2_000, true);
    }

    #[test]
    fn a_claim_that_was_cut_without_a_position_ends_the_old_traversal() {
        let mut world = World::at_the_end_of_a_traversal();
        let next = world.is_at(10, false);
        world.claim_cursor.note(next, &claim_result(Some(12), None, false), world.now);
        world.is_at(12, false);
    }

    #[test]
    fn rows_given_back_end_the_traversal_and_leave_the_watermark() {
        let (mut world, _, straggler) = World::between_two_traversals();
        world.claim_cursor.stop();
        world.reached(straggler, 11, 2_000);
        world.is_at(10, false);
    }

    /// However they fail: the rows that they had locked are above the watermark.
    #[test]
    fn no_number_of_claims_that_fail_moves_the_watermark() {
        let mut world = World::at_the_end_of_a_traversal();
        world.is_at(10, false);
        for _ in 0..3 {
            world.claim_cursor.stop();
            world.now = world.now + TRAVERSAL_MAX * 100;
            world.is_at(10, false);
        }
    }
}
