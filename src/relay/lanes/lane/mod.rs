//! One owned lane: which keys have something to send, in which order, and what is still to read. No input or output.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use self::fence_state::FenceState;
use self::key::Key;
use self::low_watermark::{CoveredPage, LowWatermark};
use self::ownership::LaneOwnership;
use self::page::{FoundRow, KeyHash, Page, Scan, ScanKind, WaitingRow};
use self::recent_sends::RecentSends;
use crate::clock::BootInstant;
use crate::limits::{LANE_KEY_IN_FLIGHT_MAX, LANE_KEYS_MAX, LANE_RECHECK};
use crate::store::{OwnedLane, RowKey};
use crate::transport::{FencedLane, KeySequence};

mod arrive;
mod blocked;
pub(crate) mod fence_state;
pub(crate) mod key;
pub(crate) mod low_watermark;
pub(crate) mod ownership;
pub(crate) mod page;
mod reading;
pub(crate) mod recent_sends;

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) ownership: LaneOwnership,
    /// Since when this process has owned it. Nobody else has touched rows written since then.
    taken_at: BootInstant,
    /// Until when its rows may be sent.
    pub(crate) valid_until: BootInstant,
    /// Until when nothing is sent: rows that the last owner had in flight may still arrive.
    pub(crate) quiet_until: BootInstant,
    /// Sends nothing more, and is handed over once nothing is in flight.
    pub(crate) is_releasing: bool,
    pub(crate) fence_state: FenceState,
    keys: HashMap<KeyHash, Key>,
    /// Keys with a row to send and nothing in the way, each once.
    ready: VecDeque<KeyHash>,
    /// When blocked keys try again.
    blocked: BTreeSet<(BootInstant, KeyHash)>,
    /// Keys of which more rows have to be read, by the first row that was not kept.
    to_refill: BTreeSet<(i64, KeyHash)>,
    waiting: usize,
    /// Up to this id the lane was read; the next page from the front begins here.
    front: i64,
    low_watermark: LowWatermark,
    has_more: bool,
    /// When the last read to the end of the lane began, unless something was committed since that it may have missed.
    covered_at: Option<BootInstant>,
    /// Rows of the last page from the front that the next page may find again.
    reread: usize,
    /// Until when the next read from the front is delayed, because it reads many rows again.
    front_at: BootInstant,
    /// The highest id ever read.
    read_to: i64,
    /// The highest id that arrived inline, without being read.
    arrived_to: i64,
    /// Where the next page of late rows begins.
    late_from: i64,
    /// When it is read.
    late_at: BootInstant,
    /// When it may be read from its beginning again, and not only from its low watermark; see
    /// [`note_scan_duration`](Self::note_scan_duration).
    full_scan_at: BootInstant,
    /// When a read for late rows is next followed by one from the front.
    new_at: BootInstant,
    /// The kind of the last scan, so that none of the three kinds starves the others.
    last_scan: ScanKind,
    recent: RecentSends,
}

impl Lane {
    pub(crate) fn new(
        held: OwnedLane,
        fence_state: FenceState,
        valid_until: BootInstant,
        quiet_until: BootInstant,
        now: BootInstant,
    ) -> Self {
        Self {
            ownership: LaneOwnership::begin(held),
            taken_at: now,
            valid_until,
            quiet_until,
            is_releasing: false,
            fence_state,
            keys: HashMap::new(),
            ready: VecDeque::new(),
            blocked: BTreeSet::new(),
            to_refill: BTreeSet::new(),
            waiting: 0,
            front: 0,
            low_watermark: LowWatermark::default(),
            has_more: true,
            covered_at: None,
            reread: 0,
            front_at: now,
            read_to: 0,
            arrived_to: 0,
            late_from: 0,
            late_at: now,
            full_scan_at: now,
            new_at: now,
            last_scan: ScanKind::Refill,
            recent: RecentSends::default(),
        }
    }

    pub(crate) fn may_send(&self, now: BootInstant) -> bool {
        let is_unfenced = matches!(self.fence_state, FenceState::Unfenced { .. });
        !self.is_releasing && !is_unfenced && now < self.valid_until && now >= self.quiet_until
    }

    fn depth(&self) -> usize {
        if matches!(self.fence_state, FenceState::Plain) { 1 } else { LANE_KEY_IN_FLIGHT_MAX }
    }

    /// Takes in a page. Returns how many of its rows became visible only after a later row of their key was sent.
    pub(crate) fn note(&mut self, scan: Scan, page: &Page, late_at: BootInstant) -> usize {
        let (taken, left) = page.rows.split_at(match scan.is_complete {
            true => page.rows.len(),
            false => page.rows.partition_point(|found| found.waiting.row.id <= scan.front),
        });
        self.has_more |= !left.is_empty();
        let end = if left.is_empty() { page.end() } else { page.end().min(scan.front) };
        let has_more_behind = !left.is_empty() || end < self.seen_to();
        let covered = |&&(from, _): &&(i64, KeyHash)| scan.after < from && from <= end;
        let resumed: Vec<KeyHash> = self.to_refill.iter().filter(covered).map(|(_, key)| *key).collect();
        for key in &resumed {
            if let Some(state) = self.keys.get_mut(key) {
                state.resume();
            }
        }
        let late = taken.iter().filter(|found| self.enter(**found, page.read_at.1)).count();
        for key in resumed {
            if has_more_behind {
                self.change(key, |state| state.skip(end + 1));
            }
            self.refresh(key);
        }
        self.advance(scan, page, late_at);
        late
    }

    /// Takes in one row. Returns whether a later row of its key was already sent.
    fn enter(&mut self, FoundRow { key, waiting: entry, in_ledger }: FoundRow, now: BootInstant) -> bool {
        let last_sent = self.recent.last_sent(key);
        let is_new = self.change(key, |state| !state.is_known(entry.row) && state.enter(entry));
        if in_ledger && self.keys.get(&key).is_some_and(Key::is_free) {
            // In flight from an earlier ownership: its key waits for the outcome.
            self.change(key, |state| state.move_to_in_flight(entry.row));
            self.block(key, entry.row, now + LANE_RECHECK);
        }
        is_new && last_sent.is_some_and(|last| last > entry.row.id)
    }

    /// Changes a key and updates the lane's lists to match.
    fn change<T>(&mut self, key: KeyHash, change: impl FnOnce(&mut Key) -> T) -> T {
        let state = self.keys.entry(key).or_default();
        let before = state.waiting();
        let changed = change(state);
        self.waiting = (self.waiting + state.waiting()).saturating_sub(before);
        self.refresh(key);
        changed
    }

    /// Takes the next row to send, if it fits into `bytes_max`. Its key waits for [`done`](Self::done),
    /// [`requeue`](Self::requeue) or [`block`](Self::block).
    pub(crate) fn take(&mut self, bytes_max: usize) -> Option<(KeyHash, WaitingRow, Option<KeySequence>)> {
        let depth = self.depth();
        loop {
            let key = *self.ready.front()?;
            let next = self.keys.get(&key).and_then(|state| state.next(depth));
            if next.is_some_and(|next| next.bytes > bytes_max) {
                return None;
            }
            self.ready.pop_front();
            // The key may have been blocked since.
            let taken = self.keys.get_mut(&key).and_then(|state| {
                state.is_ready = false;
                state.take(depth)
            });
            self.waiting -= usize::from(taken.is_some());
            self.refresh(key);
            if let Some((taken, sequence)) = taken {
                return Some((key, taken, sequence));
            }
        }
    }

    /// The lane is fenced: the broker refuses what earlier owners still send.
    pub(crate) fn fence(&mut self, by: Arc<dyn FencedLane>) {
        if let FenceState::Unfenced { tries, .. } = self.fence_state {
            self.fence_state = FenceState::Fenced { by, tries };
        }
    }

    /// Notes that the lane could not be fenced, or cannot be sent from any more. It is fenced again after a while.
    pub(crate) fn unfence(&mut self, now: BootInstant) {
        if let Some(fence_state) = self.fence_state.retry(now) {
            self.fence_state = fence_state;
        }
    }

    /// Notes that the producer works.
    pub(crate) fn delivered(&mut self) {
        if let FenceState::Fenced { tries, .. } = &mut self.fence_state {
            *tries = 0;
        }
    }

    /// Whether a row is still as it was when it was written at `written_at`: only this owner writes to it, and it has
    /// not sent it.
    pub(crate) fn is_untouched(&self, key: KeyHash, row: RowKey, written_at: BootInstant) -> bool {
        written_at >= self.taken_at && self.recent.last_sent(key).is_none_or(|last| last < row.id)
    }

    /// Notes that a row was handed to the client.
    pub(crate) fn sent(&mut self, key: KeyHash, row: RowKey) {
        self.recent.note(key, row.id);
    }

    /// The row is delivered, dead-lettered or gone: the next row of its key may go.
    pub(crate) fn done(&mut self, key: KeyHash, row: RowKey) {
        self.take_back(key, row, |_, _| ());
    }

    /// The row was not sent: it is the next row of its key again.
    pub(crate) fn requeue(&mut self, key: KeyHash, row: RowKey) {
        self.take_back(key, row, Key::requeue);
    }

    fn take_back(&mut self, key: KeyHash, row: RowKey, then: impl FnOnce(&mut Key, WaitingRow)) {
        if self.keys.contains_key(&key) {
            self.change(key, |state| {
                if let Some(back) = state.take_back(row) {
                    then(state, back);
                }
            });
        }
    }

    /// Updates the lane's lists to one key's state.
    fn refresh(&mut self, key: KeyHash) {
        let depth = self.depth();
        let Some(state) = self.keys.get_mut(&key) else { return };
        if !state.is_ready && state.next(depth).is_some() {
            state.is_ready = true;
            self.ready.push_back(key);
        }
        let refill_from = state.refill_from();
        if state.refill_from != refill_from {
            if let Some(from) = state.refill_from {
                self.to_refill.remove(&(from, key));
            }
            if let Some(from) = refill_from {
                self.to_refill.insert((from, key));
            }
            state.refill_from = refill_from;
        }
        if state.is_done() && !state.is_ready {
            self.keys.remove(&key);
        }
    }

    /// Makes room for other keys if there is none. Not while a page is being read, which may begin behind the forgotten
    /// rows.
    pub(crate) fn make_room(&mut self) {
        if self.keys.len() >= LANE_KEYS_MAX {
            self.forget();
        }
    }

    /// Forgets keys with nothing but unread rows beyond the front. With no room to read them, such keys would keep
    /// their places forever. The next page from the front brings their rows as if the keys were new.
    fn forget(&mut self) {
        let is_only_behind = |key: &KeyHash| self.keys.get(key).is_some_and(|state| state.is_only_behind(self.front));
        let beyond = self.to_refill.range((self.front + 1, KeyHash::MIN)..);
        let forgotten: Vec<(i64, KeyHash)> = beyond.filter(|(_, key)| is_only_behind(key)).copied().collect();
        for (from, key) in forgotten {
            self.to_refill.remove(&(from, key));
            self.keys.remove(&key);
            (self.has_more, self.covered_at) = (true, None);
        }
    }

    /// Since when the oldest row has waited that is not behind a failed one.
    pub(crate) fn oldest(&self) -> Option<BootInstant> {
        self.keys.values().filter_map(Key::oldest).min()
    }

    /// Whether a row is in flight: being read, sent, or its failure is being written.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.keys.values().any(Key::has_in_flight)
    }

    /// Whether everything committed so far was read, sent and answered, except for blocked keys.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_more && self.to_refill.is_empty() && self.ready.is_empty() && !self.has_in_flight()
    }

    pub(crate) fn has_ready(&self, now: BootInstant) -> bool {
        self.may_send(now) && !self.ready.is_empty()
    }
}

/// Until when a lane may be sent from, if its lease was requested at `began_at`.
pub(crate) fn validity(began_at: BootInstant, lease: Duration, margin: Duration) -> BootInstant {
    began_at + lease - margin
}

#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
