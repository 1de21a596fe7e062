//! How commits reach a lane: what has to be read, and inline rows whose predecessors are known.

use super::{FoundRow, KeyHash, Lane, WaitingRow};
use crate::clock::BootInstant;
use crate::limits::{LANE_KEYS_MAX, LANE_WAITING_LOW, LANE_WAKEUP_SLACK_IDS};

impl Lane {
    /// A row of the lane was committed, with this id if known. Its transaction may have been slower than that of a
    /// higher id, so reading goes back to it.
    pub(crate) fn rewind(&mut self, id: Option<i64>) {
        let before = id.map_or(self.read_to.saturating_sub(LANE_WAKEUP_SLACK_IDS), |id| id.saturating_sub(1));
        self.front = self.front.min(before.max(0));
        (self.has_more, self.covered_at) = (true, None);
    }

    /// The highest id that was read or arrived inline.
    pub(crate) fn seen_to(&self) -> i64 {
        self.read_to.max(self.arrived_to)
    }

    /// A row is about to be committed to the lane in this process: everything before it is read meanwhile.
    pub(crate) fn expect(&mut self) {
        self.has_more = true;
    }

    /// Takes in a row whose COMMIT was announced at that time and is verified, if the lane was read to its end since:
    /// then everything committed before the row was written is known. Returns whether a later row of its key is already
    /// sent, or `None` if the lane has to be read.
    ///
    /// It does not take the row if one of its id or a higher one was already read: that page may have shown the row,
    /// and it may be sent by now.
    pub(crate) fn arrive(
        &mut self,
        key: KeyHash,
        entry: WaitingRow,
        announced_at: BootInstant,
        now: BootInstant,
    ) -> Option<bool> {
        let is_covered = self.taken_at <= announced_at && self.covered_at.is_some_and(|at| announced_at <= at);
        let has_room = self.waiting < LANE_WAITING_LOW && self.keys.len() < LANE_KEYS_MAX;
        let is_news = entry.row.id > self.read_to;
        (is_covered && has_room && is_news).then(|| {
            // If its key waits, the row is not kept, and no page has shown it yet.
            self.arrived_to = self.arrived_to.max(entry.row.id);
            self.enter(FoundRow { key, waiting: entry, in_ledger: false }, now)
        })
    }
}
