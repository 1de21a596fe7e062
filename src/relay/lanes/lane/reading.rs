//! Which part of a lane is read next, and how a page changes that.

use std::time::Duration;

use super::{CoveredPage, FenceState, Lane, Page, Scan, ScanKind};
use crate::clock::BootInstant;
use crate::limits::{
    FULL_SCAN_PAUSE_FACTOR, LANE_KEYS_MAX, LANE_LATE_PAUSE, LANE_PAGE_ROWS_MAX, LANE_RECHECK, LANE_REREAD_ROWS_MAX,
    LANE_WAITING_LOW,
};

/// The next moment of a schedule that all lanes share, so that lanes with more to read share a statement.
fn in_step(at: BootInstant) -> BootInstant {
    let beginning = BootInstant::from_boot(Duration::ZERO);
    let steps = beginning.until(at).as_millis().div_ceil(LANE_LATE_PAUSE.as_millis());
    beginning + LANE_LATE_PAUSE * u32::try_from(steps).unwrap_or(u32::MAX)
}

impl Lane {
    /// What to read next; nothing while enough waits to be sent.
    pub(crate) fn next_scan(&self, now: BootInstant) -> Option<Scan> {
        if !self.may_send(now) {
            return None;
        }
        let base = self.front.min(self.low_watermark.id());
        let scan = |kind, after| Scan { kind, after, reread: 0, front: self.front, is_complete: after <= base };
        let wants_front = self.wants_front() && now >= self.front_at;
        let front = wants_front.then(|| Scan { reread: self.reread, ..scan(ScanKind::Front, base) });
        // A late scan that has begun continues, so that the rows behind its first page do not wait forever.
        let late_after = if self.late_from > 0 || now >= self.full_scan_at { self.late_from } else { base };
        let late = (now >= self.late_at).then(|| scan(ScanKind::Late, late_after));
        // Rows beyond the front come with the next page from there.
        let within = self.to_refill.first().filter(|(from, _)| *from <= self.front);
        let refill = within.map(|(from, _)| scan(ScanKind::Refill, from - 1));
        match self.last_scan {
            ScanKind::Refill => front.or(late).or(refill),
            ScanKind::Front => late.or(refill).or(front),
            ScanKind::Late => refill.or(front).or(late),
        }
    }

    /// Whether more should be read from the front, for known or new keys, and there is room.
    fn wants_front(&self) -> bool {
        let is_beyond = self.to_refill.last().is_some_and(|(from, _)| *from > self.front);
        (self.has_more || is_beyond) && self.waiting < LANE_WAITING_LOW && self.keys.len() < LANE_KEYS_MAX
    }

    /// When there is something to do without a wake-up.
    pub(crate) fn next_at(&self) -> Option<BootInstant> {
        if self.is_releasing || matches!(self.fence_state, FenceState::Unfenced { .. }) {
            return None;
        }
        let retry = self.blocked.first().map_or(self.late_at, |(until, _)| *until);
        let wants_more = self.wants_front() || self.to_refill.first().is_some_and(|(from, _)| *from <= self.front);
        let front = if wants_more { self.late_at.min(self.front_at) } else { self.late_at };
        Some(front.min(retry).max(self.quiet_until))
    }

    pub(super) fn advance(&mut self, scan: Scan, page: &Page, late_at: BootInstant) {
        let Page { read, last, is_full, youngest, horizon, seen, read_at: (began_at, now), .. } = *page;
        self.last_scan = scan.kind;
        self.read_to = self.read_to.max(last);
        if scan.is_complete {
            let last = (read > 0).then_some(last);
            if !is_full && scan.front == self.front {
                self.covered_at = Some(began_at);
            }
            self.low_watermark.note(CoveredPage {
                last,
                end: page.end(),
                youngest,
                horizon,
                seen,
                began_at,
                ended_at: now,
            });
        }
        self.note_scan_duration(scan, page.read_at);
        match scan.kind {
            // Only if no wake-up set the front back in between.
            ScanKind::Front if scan.front == self.front => {
                self.has_more = is_full;
                self.reread = read.min(LANE_REREAD_ROWS_MAX);
                if self.reread > LANE_PAGE_ROWS_MAX {
                    self.front_at = now + LANE_RECHECK;
                }
                self.front = self.front.max(last);
            }
            ScanKind::Late => {
                // New rows must not wait until a late scan has gone through all blocked ones. A read from the front
                // costs as much as a page, so it comes once per poll interval and not after each page.
                if is_full && now >= self.new_at && self.keys.len() < LANE_KEYS_MAX {
                    (self.has_more, self.new_at) = (true, late_at);
                }
                // Not beyond the front: rows behind it are not late.
                let goes_on = is_full && last < self.front;
                self.late_from = if goes_on { last } else { 0 };
                self.late_at = if goes_on { late_at.min(in_step(now + LANE_LATE_PAUSE)) } else { late_at };
            }
            ScanKind::Front | ScanKind::Refill => {}
        }
    }

    /// Notes how long a page took. An old snapshot keeps vacuum from removing dead index entries, and a page from the
    /// beginning walks over all of them. So such pages pause for [`FULL_SCAN_PAUSE_FACTOR`] times their duration.
    pub(crate) fn note_scan_duration(&mut self, scan: Scan, (began_at, now): (BootInstant, BootInstant)) {
        if scan.kind == ScanKind::Late && scan.after == self.late_from {
            // A late scan may take several pages: a quick one does not shorten the pause after a slow one.
            self.full_scan_at = self.full_scan_at.max(now + began_at.until(now).saturating_mul(FULL_SCAN_PAUSE_FACTOR));
        }
    }
}
