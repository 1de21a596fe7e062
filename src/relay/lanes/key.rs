//! One key of a lane: what of it is under way, waits, or is in its way. No input or output.

use std::collections::VecDeque;

use super::page::Waiting;
use crate::clock::BootInstant;
use crate::limits::LANE_KEY_WAITING_MAX;
use crate::store::RowKey;
use crate::transport::Run;

#[derive(Debug, Default)]
pub(crate) struct Key {
    /// Under way: being read, sent, or their failure is being written. One, or on a fenced lane several.
    sending: Vec<Waiting>,
    /// What those have in common, where there may be several. Another when the last of them is treated.
    run: Option<Run>,
    /// Failed: what comes behind it waits until then.
    blocked: Option<(Waiting, BootInstant)>,
    /// By id.
    waiting: VecDeque<Waiting>,
    /// Rows from this id on were seen and not kept.
    pub(crate) skipped: Option<i64>,
    /// Whether it is in the lane's list.
    pub(crate) is_ready: bool,
    pub(crate) hungry_from: Option<i64>,
}

impl Key {
    /// The row that may be sent now, with `depth` of the key under way at most.
    pub(crate) fn next(&self, depth: usize) -> Option<Waiting> {
        let next = *self.waiting.front()?;
        let is_free = self.blocked.is_none_or(|(head, _)| next.row.id < head.row.id);
        // Behind a failure nothing goes before every row that was under way with it is back in its place.
        let has_failed = || self.run.as_ref().is_some_and(Run::has_failed);
        let has_room = self.sending.is_empty() || (self.sending.len() < depth && !has_failed());
        (is_free && has_room).then_some(next)
    }

    /// Takes the [next](Self::next) row.
    pub(crate) fn take(&mut self, depth: usize) -> Option<(Waiting, Option<Run>)> {
        let next = self.next(depth)?;
        self.waiting.pop_front();
        self.sending.push(next);
        let run = (depth > 1).then(|| self.run.get_or_insert_default().clone());
        Some((next, run))
    }

    /// The row is no longer under way; `None` where it was not.
    pub(crate) fn taken_back(&mut self, row: RowKey) -> Option<Waiting> {
        let place = self.sending.iter().position(|sending| sending.row == row)?;
        let back = self.sending.remove(place);
        if self.sending.is_empty() {
            self.run = None;
        }
        Some(back)
    }

    pub(crate) fn is_known(&self, row: RowKey) -> bool {
        self.blocked.is_some_and(|(head, _)| head.row == row) || self.sending.iter().any(|sending| sending.row == row)
    }

    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether nothing is under way or in the way.
    pub(crate) fn is_free(&self) -> bool {
        self.sending.is_empty() && self.blocked.is_none()
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_done(&self) -> bool {
        self.is_free() && self.waiting.is_empty() && self.skipped.is_none()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Since when its oldest row waits, unless a failed one is in its way.
    pub(crate) fn oldest(&self) -> Option<BootInstant> {
        let first = self.sending.first().or_else(|| self.waiting.front());
        first.map(|row| row.since).filter(|_| !self.is_blocked())
    }

    /// From where its rows are to be read again, where few are left.
    pub(crate) fn hungry_from(&self) -> Option<i64> {
        let is_low = self.waiting.len() <= LANE_KEY_WAITING_MAX / 4;
        self.skipped.filter(|_| is_low && !self.is_blocked())
    }

    /// Rows from this id on are read again.
    pub(crate) fn skip(&mut self, id: i64) {
        self.skipped = Some(self.skipped.map_or(id, |from| from.min(id)));
    }

    /// Whether a row of this id would come before one that was seen and not kept.
    fn skips(&self, id: i64) -> bool {
        self.skipped.is_some_and(|from| from <= id)
    }

    /// Takes in a row that was read; says whether it is new and kept.
    pub(crate) fn enter(&mut self, entry: Waiting) -> bool {
        let id = entry.row.id;
        if self.is_blocked() || self.skips(id) {
            self.skip(id);
            return false;
        }
        let is_new = self.insert(entry);
        if self.waiting.len() > LANE_KEY_WAITING_MAX
            && let Some(dropped) = self.waiting.pop_back()
        {
            self.skip(dropped.row.id);
        }
        is_new
    }

    fn insert(&mut self, entry: Waiting) -> bool {
        let place = self.waiting.binary_search_by_key(&entry.row.id, |waiting| waiting.row.id);
        let Err(place) = place else { return false };
        self.waiting.insert(place, entry);
        true
    }

    /// A row that was under way and was not sent waits again: before whatever comes behind it.
    pub(crate) fn put_back(&mut self, back: Waiting) {
        let id = back.row.id;
        if self.blocked.is_some_and(|(head, _)| head.row.id < id) || self.skips(id) {
            self.skip(id);
        } else {
            // A row with a lower id may have become visible meanwhile.
            self.insert(back);
        }
    }

    /// A row that was under way and failed: what comes behind it waits until then, and is read again. Of two, the first one
    /// counts: the other comes behind it. Returns what was in the way and is no more.
    pub(crate) fn block(&mut self, failed: Waiting, until: BootInstant) -> Option<BootInstant> {
        let before = self.blocked;
        if let Some((head, _)) = before {
            if head.row.id < failed.row.id {
                self.skip(failed.row.id);
                return None;
            }
            self.skip(head.row.id);
        }
        // Due when it is tried again, and not overdue before.
        self.blocked = Some((Waiting { since: until, ..failed }, until));
        let behind = self.waiting.partition_point(|waiting| waiting.row.id < failed.row.id);
        let first = self.waiting.drain(behind..).next();
        if let Some(first) = first {
            self.skip(first.row.id);
        }
        before.map(|(_, until)| until)
    }

    /// Until when it waits.
    pub(crate) fn blocked_until(&self) -> Option<BootInstant> {
        self.blocked.map(|(_, until)| until)
    }

    /// What failed tries again.
    pub(crate) fn unblock(&mut self) {
        if let Some((head, _)) = self.blocked.take() {
            self.insert(head);
        }
    }

    /// Takes a row in hand from an earlier time as the lane's owner out of those that wait.
    pub(crate) fn stand_behind(&mut self, row: RowKey) {
        let place = self.waiting.iter().position(|waiting| waiting.row == row);
        self.sending.extend(place.and_then(|place| self.waiting.remove(place)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::message::MessageId;

    #[test]
    fn rows_beyond_the_bound_are_not_kept_and_are_read_again_once_few_are_left() {
        let mut key = Key::default();
        let (most, since) = (LANE_KEY_WAITING_MAX as i64, BootInstant::from_boot(Duration::ZERO));
        for id in 0..2 * most {
            key.enter(Waiting { row: RowKey { id, message_id: MessageId::new() }, bytes: 1, since });
            assert!(key.waiting() <= LANE_KEY_WAITING_MAX, "{id}");
        }
        let mut sent = 0;
        while key.hungry_from().is_none() {
            let (next, _) = key.take(1).unwrap();
            key.taken_back(next.row);
            sent += 1;
        }
        assert_eq!(key.hungry_from(), Some(most), "the first that was not kept");
        assert_eq!(sent, LANE_KEY_WAITING_MAX - LANE_KEY_WAITING_MAX / 4);
    }
}
