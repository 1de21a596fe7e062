//! One key of a lane: which rows are in flight, waiting, or blocking it. No input or output.

use std::collections::VecDeque;

use super::page::WaitingRow;
use crate::clock::BootInstant;
use crate::limits::LANE_KEY_WAITING_MAX;
use crate::store::RowKey;
use crate::transport::KeySequence;

#[derive(Debug, Default)]
pub(crate) struct Key {
    /// In flight: being read, sent, or their failure is being written. One row, or several on a fenced lane.
    in_flight: Vec<WaitingRow>,
    /// The sequence of the rows in flight, if there may be several. A new one begins once the last of them is done.
    sequence: Option<KeySequence>,
    /// The failed row, and until when the rows behind it wait.
    blocked: Option<(WaitingRow, BootInstant)>,
    /// By id. They end before the failed row and before the first skipped row, so that none overtakes those.
    waiting: VecDeque<WaitingRow>,
    /// Rows from this id on were seen and not kept.
    skipped: Option<i64>,
    /// Whether it is in the lane's list of ready keys.
    pub(crate) is_ready: bool,
    pub(crate) refill_from: Option<i64>,
}

impl Key {
    /// The row that may be sent now, with at most `depth` rows of the key in flight.
    pub(crate) fn next(&self, depth: usize) -> Option<WaitingRow> {
        let next = *self.waiting.front()?;
        let is_free = self.blocked.is_none_or(|(head, _)| next.row.id < head.row.id);
        // After a failure nothing goes until every row in flight with it is back in its place.
        let has_failed = || self.sequence.as_ref().is_some_and(KeySequence::has_failed);
        let has_room = self.in_flight.is_empty() || (self.in_flight.len() < depth && !has_failed());
        (is_free && has_room).then_some(next)
    }

    /// Takes the [next](Self::next) row.
    pub(crate) fn take(&mut self, depth: usize) -> Option<(WaitingRow, Option<KeySequence>)> {
        let next = self.next(depth)?;
        self.waiting.pop_front();
        self.in_flight.push(next);
        let sequence = (depth > 1).then(|| self.sequence.get_or_insert_default().clone());
        Some((next, sequence))
    }

    /// The row is no longer in flight; `None` if it was not.
    pub(crate) fn take_back(&mut self, row: RowKey) -> Option<WaitingRow> {
        let place = self.in_flight.iter().position(|sending| sending.row == row)?;
        let back = self.in_flight.remove(place);
        if self.in_flight.is_empty() {
            self.sequence = None;
        }
        Some(back)
    }

    pub(crate) fn is_known(&self, row: RowKey) -> bool {
        self.blocked.is_some_and(|(head, _)| head.row == row) || self.in_flight.iter().any(|sending| sending.row == row)
    }

    pub(crate) fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether nothing is in flight or blocks the key.
    pub(crate) fn is_free(&self) -> bool {
        self.in_flight.is_empty() && self.blocked.is_none()
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Whether nothing of the key is left.
    pub(crate) fn is_done(&self) -> bool {
        self.is_free() && self.waiting.is_empty() && self.skipped.is_none()
    }

    /// Whether nothing is left but rows behind `id` that were seen and not kept.
    pub(crate) fn is_only_behind(&self, id: i64) -> bool {
        self.is_free() && self.waiting.is_empty() && !self.is_ready && self.skipped.is_some_and(|from| from > id)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Since when its oldest row has waited, unless a failed row blocks it.
    pub(crate) fn oldest(&self) -> Option<BootInstant> {
        let first = self.in_flight.first().or_else(|| self.waiting.front());
        first.map(|row| row.since).filter(|_| !self.is_blocked())
    }

    /// From where to read its rows again if few are left; not if a failed row is in front of them.
    pub(crate) fn refill_from(&self) -> Option<i64> {
        let is_low = self.waiting.len() <= LANE_KEY_WAITING_MAX / 4;
        self.skipped.filter(|from| is_low && !self.is_behind_a_failure(*from))
    }

    /// Its dropped rows are being read again.
    pub(crate) fn resume(&mut self) {
        self.skipped = None;
    }

    /// Rows from this id on are read again. Those that wait are dropped and read with the others.
    pub(crate) fn skip(&mut self, id: i64) {
        if !self.skips(id) {
            self.skipped = Some(id);
            self.waiting.truncate(self.waiting.partition_point(|waiting| waiting.row.id < id));
        }
    }

    /// Whether a row of this id would be behind one that was seen and not kept.
    fn skips(&self, id: i64) -> bool {
        self.skipped.is_some_and(|from| from <= id)
    }

    fn is_behind_a_failure(&self, id: i64) -> bool {
        self.blocked.is_some_and(|(head, _)| head.row.id < id)
    }

    /// Takes in a row that was read. Returns whether it was new.
    pub(crate) fn enter(&mut self, entry: WaitingRow) -> bool {
        let is_new = self.insert(entry);
        if self.waiting.len() > LANE_KEY_WAITING_MAX
            && let Some(dropped) = self.waiting.pop_back()
        {
            self.skip(dropped.row.id);
        }
        is_new
    }

    fn insert(&mut self, entry: WaitingRow) -> bool {
        let id = entry.row.id;
        if self.is_behind_a_failure(id) || self.skips(id) {
            self.skip(id);
            return false;
        }
        let place = self.waiting.binary_search_by_key(&id, |waiting| waiting.row.id);
        let Err(place) = place else { return false };
        self.waiting.insert(place, entry);
        true
    }

    /// A row in flight was not sent and waits again, in front of all later rows.
    pub(crate) fn requeue(&mut self, back: WaitingRow) {
        self.insert(back);
    }

    /// A row in flight failed. Later rows wait until then and are read again. If two rows failed, the first one counts;
    /// the other is read again behind it. Returns the end of a wait that this replaces.
    pub(crate) fn block(&mut self, failed: WaitingRow, until: BootInstant) -> Option<BootInstant> {
        let before = self.blocked;
        if let Some((head, _)) = before {
            if head.row.id < failed.row.id {
                self.skip(failed.row.id);
                return None;
            }
            self.skip(head.row.id);
        }
        // Due when it is tried again, and not overdue before.
        self.blocked = Some((WaitingRow { since: until, ..failed }, until));
        let behind = self.waiting.partition_point(|waiting| waiting.row.id < failed.row.id);
        if let Some(first) = self.waiting.get(behind) {
            self.skip(first.row.id);
        }
        before.map(|(_, until)| until)
    }

    /// Until when the key waits.
    pub(crate) fn blocked_until(&self) -> Option<BootInstant> {
        self.blocked.map(|(_, until)| until)
    }

    /// The failed row may be tried again; it is read again if a row in front of it was dropped.
    pub(crate) fn unblock(&mut self) {
        if let Some((head, _)) = self.blocked.take() {
            self.insert(head);
        }
    }

    /// Moves a waiting row to those in flight: it is in flight from an earlier ownership.
    pub(crate) fn move_to_in_flight(&mut self, row: RowKey) {
        let place = self.waiting.iter().position(|waiting| waiting.row == row);
        self.in_flight.extend(place.and_then(|place| self.waiting.remove(place)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::message::MessageId;

    const NOW: BootInstant = BootInstant::from_boot(Duration::ZERO);

    fn row(id: i64) -> WaitingRow {
        WaitingRow { row: RowKey { id, message_id: MessageId::new() }, bytes: 1, since: NOW }
    }

    /// A key with three rows in flight.
    fn in_flight() -> (Key, [WaitingRow; 3]) {
        let (mut key, rows) = (Key::default(), [10, 20, 30].map(row));
        for row in rows {
            assert!(key.enter(row));
        }
        let sequences = rows.map(|row| {
            let (taken, sequence) = key.take(3).unwrap();
            assert_eq!(taken, row);
            sequence.unwrap()
        });
        sequences[0].fail();
        (key, rows)
    }

    /// The ids that are sent, in order, when all of these rows are read again.
    fn goes(key: &mut Key, rows: &[WaitingRow]) -> Vec<i64> {
        let mut gone = Vec::new();
        loop {
            if let Some(from) = key.refill_from() {
                key.resume();
                for row in rows.iter().filter(|row| row.row.id >= from) {
                    key.enter(*row);
                }
            }
            let Some((next, _)) = key.take(1) else { return gone };
            key.take_back(next.row);
            gone.push(next.row.id);
        }
    }

    #[test]
    fn rows_read_during_a_failure_hide_no_earlier_row_that_comes_back() {
        let (mut key, rows) = in_flight();
        let [first, second, third] = rows.map(|row| key.take_back(row.row).unwrap());
        key.requeue(first);
        key.block(third, NOW);
        for row in rows {
            assert!(key.is_known(row.row) || !key.enter(row) || row == second);
        }
        key.requeue(second);
        key.unblock();
        assert_eq!(goes(&mut key, &rows), [10, 20, 30]);
    }

    #[test]
    fn a_late_failure_does_not_overtake_rows_to_be_read_again() {
        let (mut key, rows) = in_flight();
        let [first, second, third] = rows.map(|row| key.take_back(row.row).unwrap());
        key.block(second, NOW);
        key.block(first, NOW);
        key.unblock();
        key.block(third, NOW);
        let (next, _) = key.take(1).unwrap();
        assert_eq!(next.row, first.row);
        key.take_back(next.row);
        key.unblock();
        assert_eq!(goes(&mut key, &rows[1..]), [20, 30]);
    }

    #[test]
    fn rows_beyond_the_bound_are_not_kept_and_are_read_again_once_few_are_left() {
        let mut key = Key::default();
        let most = LANE_KEY_WAITING_MAX as i64;
        for id in 0..2 * most {
            key.enter(row(id));
            assert!(key.waiting() <= LANE_KEY_WAITING_MAX, "{id}");
        }
        let mut sent = 0;
        while key.refill_from().is_none() {
            let (next, _) = key.take(1).unwrap();
            key.take_back(next.row);
            sent += 1;
        }
        assert_eq!(key.refill_from(), Some(most), "the first that was not kept");
        assert_eq!(sent, LANE_KEY_WAITING_MAX - LANE_KEY_WAITING_MAX / 4);
    }
}
