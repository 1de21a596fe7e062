//! One owned lane: which keys have something to send, in which order, and what is still to read. No input or output.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::floor::Floor;
use super::page::{Found, KeyHash, Page, Scan, ScanKind, Waiting};
use crate::clock::BootInstant;
use crate::limits::{
    LANE_AGAIN_ROWS_MAX, LANE_KEY_WAITING_MAX, LANE_KEYS_MAX, LANE_PAGE_ROWS_MAX, LANE_RECENT_KEYS_MAX, LANE_RECHECK,
    LANE_WAITING_LOW, LANE_WAKE_SLACK_IDS,
};
use crate::store::{HeldLane, RowKey};

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) held: HeldLane,
    /// Until when its rows may be sent.
    pub(crate) valid_until: BootInstant,
    /// Until when nothing is sent: what the last owner had in flight may still arrive.
    pub(crate) quiet_until: BootInstant,
    /// Sends nothing more, and is handed over once nothing is in flight.
    pub(crate) is_given_up: bool,
    keys: HashMap<KeyHash, Key>,
    /// Keys with a row to send and nothing in its way, each once.
    ready: VecDeque<KeyHash>,
    /// When blocked keys try again.
    blocked: BTreeSet<(BootInstant, KeyHash)>,
    /// Keys that need more of their rows read, by the first that was not kept.
    hungry: BTreeSet<(i64, KeyHash)>,
    waiting: usize,
    front: i64,
    floor: Floor,
    has_more: bool,
    /// Rows of the last page from the front, which the next may find again.
    again: usize,
    /// Until when reading on is put off, where much is read again.
    front_at: BootInstant,
    /// The highest id ever read.
    read_to: i64,
    late_from: i64,
    late_at: BootInstant,
    /// What the last page was read for, so that none of the three starves the others.
    last_scan: ScanKind,
    recent: Recent,
}

#[derive(Debug, Default)]
struct Key {
    head: Head,
    /// By id.
    waiting: VecDeque<Waiting>,
    /// Rows from this id on were seen and not kept.
    skipped: Option<i64>,
    is_ready: bool,
    hungry_from: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Head {
    #[default]
    Free,
    /// Under way: being read, sent, or its failure is being written.
    Sending(Waiting),
    /// Failed: the key waits behind it until then.
    Blocked(Waiting, BootInstant),
}

impl Lane {
    pub(crate) fn new(held: HeldLane, valid_until: BootInstant, quiet_until: BootInstant, now: BootInstant) -> Self {
        Self {
            held,
            valid_until,
            quiet_until,
            is_given_up: false,
            keys: HashMap::new(),
            ready: VecDeque::new(),
            blocked: BTreeSet::new(),
            hungry: BTreeSet::new(),
            waiting: 0,
            front: 0,
            floor: Floor::default(),
            has_more: true,
            again: 0,
            front_at: now,
            read_to: 0,
            late_from: 0,
            late_at: now,
            last_scan: ScanKind::Refill,
            recent: Recent::default(),
        }
    }

    /// Something of the lane was committed, where it is known under this id. Its transaction may have been slower than
    /// that of a higher id, so reading goes back to it.
    pub(crate) fn woken(&mut self, id: Option<i64>) {
        let before = id.map_or(self.front.saturating_sub(LANE_WAKE_SLACK_IDS), |id| id.saturating_sub(1));
        self.front = self.front.min(before.max(0));
        self.has_more = true;
    }

    /// What to read next; nothing while enough waits to be sent.
    pub(crate) fn next_scan(&self, now: BootInstant) -> Option<Scan> {
        if !self.may_send(now) {
            return None;
        }
        let has_room = self.waiting < LANE_WAITING_LOW && self.keys.len() < LANE_KEYS_MAX;
        let base = self.front.min(self.floor.at(now));
        let scan = |kind, after| Scan { kind, after, again: 0, front: self.front, is_complete: after <= base };
        let wants_front = self.has_more && has_room && now >= self.front_at;
        let front = wants_front.then(|| Scan { again: self.again, ..scan(ScanKind::Front, base) });
        let late = (now >= self.late_at).then(|| scan(ScanKind::Late, self.late_from));
        let refill = self.hungry.first().map(|(from, _)| scan(ScanKind::Refill, from - 1));
        match self.last_scan {
            ScanKind::Refill => front.or(late).or(refill),
            ScanKind::Front => late.or(refill).or(front),
            ScanKind::Late => refill.or(front).or(late),
        }
    }

    /// When there is something to do although nobody wakes.
    pub(crate) fn next_at(&self) -> BootInstant {
        let retry = self.blocked.first().map_or(self.late_at, |(until, _)| *until);
        let front = if self.has_more { self.late_at.min(self.front_at) } else { self.late_at };
        front.min(retry).max(self.quiet_until)
    }

    pub(crate) fn may_send(&self, now: BootInstant) -> bool {
        !self.is_given_up && now < self.valid_until && now >= self.quiet_until
    }

    /// Takes in a page that was there at `now`. Returns how many of its rows became visible behind a later one of their key
    /// that was sent already.
    pub(crate) fn note(&mut self, scan: Scan, page: &Page, now: BootInstant, late_at: BootInstant) -> usize {
        let end = if page.is_full { page.last } else { i64::MAX };
        let covered = |&&(from, _): &&(i64, KeyHash)| scan.after < from && from <= end;
        let resumed: Vec<KeyHash> = self.hungry.iter().filter(covered).map(|(_, key)| *key).collect();
        for key in &resumed {
            if let Some(state) = self.keys.get_mut(key) {
                state.skipped = None;
            }
        }
        let (taken, left) = page.rows.split_at(match scan.is_complete {
            true => page.rows.len(),
            false => page.rows.partition_point(|found| found.waiting.row.id <= scan.front),
        });
        self.has_more |= !left.is_empty();
        let late = taken.iter().filter(|found| self.enter(**found, now)).count();
        for key in resumed {
            if let Some(state) = self.keys.get_mut(&key)
                && state.skipped.is_none()
                && end < self.read_to
            {
                state.skipped = Some(end + 1);
            }
            self.refresh(key);
        }
        self.advance(scan, page, now, late_at);
        late
    }

    fn advance(&mut self, scan: Scan, page: &Page, now: BootInstant, late_at: BootInstant) {
        let Page { read, last, is_full, youngest, .. } = *page;
        self.last_scan = scan.kind;
        self.read_to = self.read_to.max(last);
        self.floor.note(last, youngest, now);
        match scan.kind {
            // Not beyond where a wake set it back to meanwhile.
            ScanKind::Front if scan.front == self.front => {
                self.has_more = is_full;
                self.again = read.min(LANE_AGAIN_ROWS_MAX);
                if self.again > LANE_PAGE_ROWS_MAX {
                    self.front_at = now + LANE_RECHECK;
                }
                self.front = self.front.max(last);
            }
            ScanKind::Late => {
                self.late_from = if is_full { last } else { 0 };
                self.late_at = late_at;
            }
            ScanKind::Front | ScanKind::Refill => {}
        }
    }

    /// Takes in one row; says whether it comes behind a later one of its key.
    fn enter(&mut self, Found { key, waiting: entry, in_hand }: Found, now: BootInstant) -> bool {
        let id = entry.row.id;
        let state = self.keys.entry(key).or_default();
        let is_head = matches!(state.head, Head::Sending(head) | Head::Blocked(head, _) if head.row == entry.row);
        let is_blocked = matches!(state.head, Head::Blocked(..));
        let mut is_late = false;
        if is_head {
            // Known already.
        } else if is_blocked || state.skipped.is_some_and(|from| from <= id) {
            state.skipped = Some(state.skipped.map_or(id, |from| from.min(id)));
        } else if let Err(place) = state.waiting.binary_search_by_key(&id, |waiting| waiting.row.id) {
            state.waiting.insert(place, entry);
            self.waiting += 1;
            is_late = self.recent.last_sent(key).is_some_and(|last| last > id);
            if state.waiting.len() > LANE_KEY_WAITING_MAX
                && let Some(dropped) = state.waiting.pop_back()
            {
                self.waiting -= 1;
                state.skipped = Some(state.skipped.map_or(dropped.row.id, |from| from.min(dropped.row.id)));
            }
        }
        self.refresh(key);
        if in_hand && self.keys.get(&key).is_some_and(|state| state.head == Head::Free) {
            self.stand_behind(key, entry, now + LANE_RECHECK);
        }
        is_late
    }

    /// A row in hand from an earlier time as the lane's owner: its key waits for what becomes of it.
    fn stand_behind(&mut self, key: KeyHash, entry: Waiting, until: BootInstant) {
        let Some(state) = self.keys.get_mut(&key) else { return };
        if let Ok(place) = state.waiting.binary_search_by_key(&entry.row.id, |waiting| waiting.row.id) {
            state.waiting.remove(place);
            self.waiting -= 1;
        }
        state.head = Head::Sending(entry);
        self.block(key, entry.row, until);
    }

    /// Lets keys try again whose time has come.
    pub(crate) fn unblock(&mut self, now: BootInstant) {
        while let Some(&(until, key)) = self.blocked.first() {
            if until > now {
                return;
            }
            self.blocked.pop_first();
            if let Some(state) = self.keys.get_mut(&key)
                && let Head::Blocked(head, _) = state.head
            {
                state.head = Head::Free;
                state.waiting.push_front(head);
                self.waiting += 1;
                self.refresh(key);
            }
        }
    }

    /// Takes the next row to send, where it fits into `bytes_max`; its key waits for [`done`](Self::done),
    /// [`put_back`](Self::put_back) or [`block`](Self::block).
    pub(crate) fn take(&mut self, bytes_max: usize) -> Option<(KeyHash, Waiting)> {
        let key = *self.ready.front()?;
        let state = self.keys.get_mut(&key)?;
        let next = *state.waiting.front()?;
        if next.bytes > bytes_max {
            return None;
        }
        self.ready.pop_front();
        state.is_ready = false;
        state.waiting.pop_front();
        state.head = Head::Sending(next);
        self.waiting -= 1;
        self.refresh(key);
        Some((key, next))
    }

    /// Notes that a row was handed to the client.
    pub(crate) fn sent(&mut self, key: KeyHash, row: RowKey) {
        self.recent.note(key, row.id);
    }

    /// The row is delivered, dead or gone: the next of its key may go.
    pub(crate) fn done(&mut self, key: KeyHash, row: RowKey) {
        if let Some((state, _)) = self.sending(key, row) {
            state.head = Head::Free;
            self.refresh(key);
        }
    }

    /// The row was not sent: it is the next of its key again.
    pub(crate) fn put_back(&mut self, key: KeyHash, row: RowKey) {
        if let Some((state, head)) = self.sending(key, row) {
            state.head = Head::Free;
            // A row with a lower id may have become visible meanwhile.
            let place = state.waiting.partition_point(|waiting| waiting.row.id < head.row.id);
            state.waiting.insert(place, head);
            self.waiting += 1;
            self.refresh(key);
        }
    }

    /// The row failed: its key waits behind it. What else of the key was kept is read again then.
    pub(crate) fn block(&mut self, key: KeyHash, row: RowKey, until: BootInstant) {
        let Some((state, head)) = self.sending(key, row) else { return };
        state.head = Head::Blocked(head, until);
        let dropped = std::mem::take(&mut state.waiting);
        if let Some(first) = dropped.front() {
            state.skipped = Some(state.skipped.map_or(first.row.id, |from| from.min(first.row.id)));
        }
        self.waiting -= dropped.len();
        self.blocked.insert((until, key));
        self.refresh(key);
    }

    fn sending(&mut self, key: KeyHash, row: RowKey) -> Option<(&mut Key, Waiting)> {
        let state = self.keys.get_mut(&key)?;
        match state.head {
            Head::Sending(head) if head.row == row => Some((state, head)),
            _ => None,
        }
    }

    /// Brings the lists of keys in line with one key's state.
    fn refresh(&mut self, key: KeyHash) {
        let Some(state) = self.keys.get_mut(&key) else { return };
        let is_free = state.head == Head::Free;
        if is_free && !state.waiting.is_empty() && !state.is_ready {
            state.is_ready = true;
            self.ready.push_back(key);
        }
        let is_blocked = matches!(state.head, Head::Blocked(..));
        let is_low = state.waiting.len() <= LANE_KEY_WAITING_MAX / 4;
        let hungry_from = state.skipped.filter(|_| is_low && !is_blocked);
        if state.hungry_from != hungry_from {
            if let Some(from) = state.hungry_from {
                self.hungry.remove(&(from, key));
            }
            if let Some(from) = hungry_from {
                self.hungry.insert((from, key));
            }
            state.hungry_from = hungry_from;
        }
        if is_free && state.waiting.is_empty() && state.skipped.is_none() {
            self.keys.remove(&key);
        }
    }

    pub(crate) fn blocked_keys(&self) -> usize {
        self.blocked.len()
    }

    /// Whether a row is under way: being read, sent, or its failure is being written.
    pub(crate) fn is_sending(&self) -> bool {
        self.keys.values().any(|key| matches!(key.head, Head::Sending(_)))
    }

    /// Whether everything that was committed before was read, sent and answered, but for keys that are blocked.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_more && self.hungry.is_empty() && self.ready.is_empty() && !self.is_sending()
    }

    pub(crate) fn has_ready(&self, now: BootInstant) -> bool {
        self.may_send(now) && !self.ready.is_empty()
    }
}

/// The last rows sent of the keys that were sent last: two generations, so that what is forgotten is the older half.
#[derive(Debug, Default)]
struct Recent {
    young: HashMap<KeyHash, i64>,
    old: HashMap<KeyHash, i64>,
}

impl Recent {
    fn note(&mut self, key: KeyHash, id: i64) {
        if self.young.len() >= LANE_RECENT_KEYS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let last = self.young.entry(key).or_insert(id);
        *last = id.max(*last);
    }

    fn last_sent(&self, key: KeyHash) -> Option<i64> {
        self.young.get(&key).max(self.old.get(&key)).copied()
    }
}

/// How long after `now` a lane may be sent that was asked for at `began_at`.
pub(crate) fn validity(began_at: BootInstant, lease: Duration, margin: Duration) -> BootInstant {
    began_at + lease - margin
}
