//! The lanes of one ordered topic as this process sees them.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::arrivals::Arrivals;
use self::commits::Commits;
use self::pending_reads::PendingReads;
use super::lane::Lane;
use super::lane::fence_state::FenceState;
use super::lane::ownership::LaneOwnership;
use super::lane::page::{FoundRow, KeyHash, Page, Scan, WaitingRow};
use crate::clock::BootInstant;
use crate::limits::LANE_INLINE_AGE_MAX;
use crate::relay::direct::queue::InlineRow;
use crate::relay::topics::TopicState;
use crate::store::{LaneCount, LaneEntry, LaneView, RowKey};
use crate::transport::{FencedLane, KeySequence};

pub(crate) mod arrivals;
pub(crate) mod commits;
mod committed;
pub(crate) mod pending_reads;

#[derive(Debug)]
pub(crate) struct TopicLanes {
    pub(crate) topic: Arc<TopicState>,
    owned: Mutex<BTreeMap<u16, Lane>>,
    /// The fence state that lanes fenced by others resume with, should this node take them again.
    fenced_out: Mutex<BTreeMap<u16, FenceState>>,
    /// Lanes with a running fence request, from this ownership or the one before. Until it ends, no new request is made
    /// for the lane, and it is not handed over: the request would fence the next owner.
    fencing: Mutex<BTreeSet<u16>>,
    /// Commits to read, from here or elsewhere. Separate from the lanes, because committing threads write it.
    pending_reads: PendingReads,
    /// Commits of this process that owners elsewhere have not been notified of yet.
    unnotified: PendingReads,
    /// When commits of this process happened, and their inline rows.
    commits: Commits,
    /// Commits of this process that are about to happen.
    announced: PendingReads,
    /// Rows that were committed in this process after such an announcement.
    arrivals: Arrivals,
    view: Mutex<LaneView>,
    /// Since when the oldest unblocked row has waited, as of the last balancing.
    oldest: Mutex<Option<BootInstant>>,
    /// The reader may have something to do.
    pub(crate) reader_wakeup: Notify,
    /// The lane balancer should run.
    pub(crate) balancer_wakeup: Notify,
    /// A lane may have to be fenced.
    pub(crate) fencer_wakeup: Notify,
    hasher: RandomState,
    /// Rows that were read or arrived inline so far.
    seen: AtomicU64,
    /// Whether the database was seen to have these lanes.
    is_prepared: AtomicBool,
    /// Since when every read has failed.
    failing_since: Mutex<Option<BootInstant>>,
    /// Until when this node leaves the lanes to others.
    asleep_until: Mutex<Option<BootInstant>>,
}

/// A row whose turn it is.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) ownership: LaneOwnership,
    pub(crate) valid_until: BootInstant,
    pub(crate) key: KeyHash,
    pub(crate) waiting: WaitingRow,
    pub(crate) sequence: Option<KeySequence>,
}

impl TopicLanes {
    pub(crate) fn new(topic: Arc<TopicState>) -> Self {
        Self {
            topic,
            owned: Mutex::default(),
            fenced_out: Mutex::default(),
            fencing: Mutex::default(),
            pending_reads: PendingReads::default(),
            unnotified: PendingReads::default(),
            commits: Commits::default(),
            announced: PendingReads::default(),
            arrivals: Arrivals::default(),
            view: Mutex::default(),
            oldest: Mutex::default(),
            reader_wakeup: Notify::new(),
            balancer_wakeup: Notify::new(),
            fencer_wakeup: Notify::new(),
            hasher: RandomState::new(),
            seen: AtomicU64::new(0),
            is_prepared: AtomicBool::new(false),
            failing_since: Mutex::default(),
            asleep_until: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.topic.name()
    }

    /// How many lanes the topic is to have.
    pub(crate) fn count(&self) -> LaneCount {
        LaneCount { topic: self.name(), lanes: self.topic.config.lane_count().unwrap_or(0) }
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.is_prepared.load(Ordering::Acquire)
    }

    pub(crate) fn set_prepared(&self) {
        self.is_prepared.store(true, Ordering::Release);
    }

    /// Notes whether a read succeeded.
    pub(crate) fn note_read(&self, has_failed: bool, now: BootInstant) {
        let mut failing = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        *failing = has_failed.then(|| failing.unwrap_or(now));
    }

    pub(crate) fn failing_since(&self) -> Option<BootInstant> {
        *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn asleep_until(&self) -> Option<BootInstant> {
        *self.asleep_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sleep_until(&self, until: Option<BootInstant>) {
        *self.asleep_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// When a row was committed, if that was recently and in this process. Answers once.
    pub(crate) fn committed_at(&self, row: RowKey) -> Option<BootInstant> {
        self.commits.take_time(row.id)
    }

    /// The inline row for a turn, if it need not be read. Given once.
    ///
    /// The page that showed the row proves its commit and its place. Only the database knows whether somebody changed
    /// it by hand since, so a row that has waited is not given.
    pub(crate) fn take_inline(&self, turn: &Turn, now: BootInstant) -> Option<Box<InlineRow>> {
        let inline = self.commits.take_row(turn.waiting.row.id)?;
        let owned = self.owned();
        let lane = owned.get(&turn.ownership.lane()).filter(|lane| lane.ownership == turn.ownership)?;
        let key = inline.row.key;
        let is_as_written = key == turn.waiting.row && lane.is_untouched(turn.key, key, inline.inserted_at);
        (is_fresh(&inline, now) && is_as_written).then_some(inline)
    }

    /// Rows were committed to a lane in this process. If another node owns the lane, it has to be notified. Never waits
    /// for more than another such call.
    pub(crate) fn note_unnotified(&self, lane: u16, id: Option<i64>) {
        self.unnotified.note(lane, id);
    }

    /// What to notify others of, without lanes that this node owns by now.
    pub(crate) fn take_unnotified(&self) -> Vec<(u16, Option<i64>)> {
        let mut unnotified = self.unnotified.take();
        if !unnotified.is_empty() {
            let owned = self.owned();
            unnotified.retain(|lane, _| !owned.contains_key(lane));
        }
        unnotified.into_iter().collect()
    }

    /// Anything may have been committed to any lane.
    pub(crate) fn scan_again(&self) {
        self.owned().values_mut().for_each(|lane| lane.rewind(None));
        self.reader_wakeup.notify_one();
    }

    /// Lets every key that waits behind a failed row try now: somebody says that the cause is resolved.
    pub(crate) fn retry_blocked(&self) {
        self.owned().values_mut().for_each(Lane::unblock_all);
        self.reader_wakeup.notify_one();
    }

    /// What to read next: a page each of at most `lanes_max` lanes, beginning behind the lane at `turn`.
    pub(crate) fn scans(&self, turn: &mut u16, lanes_max: usize, now: BootInstant) -> Vec<(LaneOwnership, Scan)> {
        let owned = self.owned();
        let wanted = in_turn(&owned, *turn).filter_map(|(_, lane)| Some((lane.ownership, lane.next_scan(now)?)));
        let wanted: Vec<(LaneOwnership, Scan)> = wanted.take(lanes_max).collect();
        *turn = wanted.last().map_or(*turn, |(ownership, _)| ownership.lane());
        wanted
    }

    /// Takes in a page of a lane. Returns how many rows came late.
    pub(crate) fn note(
        &self,
        (ownership, scan): (LaneOwnership, Scan),
        entries: &[LaneEntry],
        is_full: bool,
        read_at: (BootInstant, BootInstant),
        late_at: BootInstant,
        is_delivered: impl Fn(RowKey) -> Option<bool>,
    ) -> usize {
        let found = |entry: &LaneEntry| {
            // Of rows in this process's ledger, not of any other.
            let delivered = is_delivered(entry.row);
            let key = self.hasher.hash_one(entry.key.as_deref());
            // If the database does not report a row's age, it counts from now.
            let age = if entry.age == Duration::MAX { Duration::ZERO } else { entry.age };
            let waiting = WaitingRow { row: entry.row, bytes: entry.bytes, since: read_at.1 - age };
            (delivered != Some(true)).then(|| FoundRow { key, waiting, in_ledger: delivered.is_some() })
        };
        let mut owned = self.owned();
        let Some(lane) = owned.get_mut(&ownership.lane()).filter(|lane| lane.ownership == ownership) else { return 0 };
        let news = entries.iter().filter(|entry| entry.row.id > lane.seen_to()).count() as u64;
        // Checked under the lock under which rows enter the ledger, so that none is missed in between.
        let page = Page {
            rows: entries.iter().filter_map(found).collect(),
            read: entries.len(),
            youngest: entries.iter().map(|entry| entry.age).min().unwrap_or(Duration::MAX),
            horizon: entries.first().and_then(|entry| entry.horizon),
            last: entries.last().map_or(scan.after, |entry| entry.row.id),
            is_full,
            seen: self.seen.fetch_add(news, Ordering::Relaxed) + news,
            read_at,
        };
        lane.note(scan, &page, late_at)
    }

    /// Takes rows whose turn it is, lane by lane, beginning behind the lane at `turn`.
    pub(crate) fn take(&self, turn: &mut u16, rows_max: usize, bytes_max: usize, now: BootInstant) -> Vec<Turn> {
        let mut owned = self.owned();
        let order: Vec<u16> = in_turn(&owned, *turn).map(|(number, _)| *number).collect();
        let (mut taken, mut bytes) = (Vec::new(), 0_usize);
        for number in order {
            let Some(lane) = owned.get_mut(&number).filter(|lane| lane.may_send(now)) else { continue };
            while taken.len() < rows_max {
                // One row goes whatever its size; otherwise it never would.
                let room = if taken.is_empty() { usize::MAX } else { bytes_max.saturating_sub(bytes) };
                let Some((key, waiting, sequence)) = lane.take(room) else { break };
                bytes = bytes.saturating_add(waiting.bytes);
                taken.push(Turn { ownership: lane.ownership, valid_until: lane.valid_until, key, waiting, sequence });
            }
            if taken.len() == rows_max {
                *turn = number;
                break;
            }
        }
        taken
    }

    pub(crate) fn ready(&self, now: BootInstant) -> bool {
        self.owned().values().any(|lane| lane.has_ready(now))
    }

    /// When there is something to do without a wake-up.
    pub(crate) fn next_at(&self) -> Option<BootInstant> {
        self.owned().values().filter_map(Lane::next_at).min()
    }

    /// Changes a row's lane, if this process still owns it as it did then, and wakes the reader.
    pub(crate) fn with_lane(&self, ownership: LaneOwnership, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.owned().get_mut(&ownership.lane()).filter(|lane| lane.ownership == ownership) {
            change(lane);
            // Once its last row is back in place, the lane can be fenced again.
            if matches!(lane.fence_state, FenceState::Unfenced { .. }) {
                self.fencer_wakeup.notify_one();
            }
        }
        self.reader_wakeup.notify_one();
    }

    /// The producer of a fenced lane, if it has one.
    pub(crate) fn fenced(&self, ownership: LaneOwnership) -> Option<Arc<dyn FencedLane>> {
        match &self.owned().get(&ownership.lane()).filter(|lane| lane.ownership == ownership)?.fence_state {
            FenceState::Fenced { by, .. } => Some(Arc::clone(by)),
            FenceState::Plain | FenceState::Unfenced { .. } => None,
        }
    }

    /// Lanes to fence now, which count as requested from here on. Nothing of them is in flight, so the first row of
    /// each key goes next.
    pub(crate) fn to_fence(&self, lanes_max: usize, now: BootInstant) -> Vec<LaneOwnership> {
        let is_due = |lane: &Lane| match lane.fence_state {
            FenceState::Unfenced { from, .. } => from <= now && now < lane.valid_until && !lane.is_releasing,
            FenceState::Plain | FenceState::Fenced { .. } => false,
        };
        // Under both locks: whoever hands lanes over sees each of them as owned and requested, or as neither.
        let (owned, mut fencing) = (self.owned(), self.fencing());
        let due = owned.values().filter(|lane| is_due(lane) && !lane.has_in_flight()).map(|lane| lane.ownership);
        due.filter(|ownership| fencing.insert(ownership.lane())).take(lanes_max).collect()
    }

    /// Lanes with a running fence request. If both are locked, lock the owned lanes first.
    pub(crate) fn fencing(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.fencing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A fence request has ended.
    pub(crate) fn note_fence_ended(&self, ownership: LaneOwnership) {
        self.fencing().remove(&ownership.lane());
    }

    /// Nobody waits for the running fence requests any more; they are repeated after a while.
    pub(crate) fn forget_fencing(&self, now: BootInstant) {
        let (mut owned, mut fencing) = (self.owned(), self.fencing());
        for lane in std::mem::take(&mut *fencing) {
            owned.get_mut(&lane).into_iter().for_each(|lane| lane.unfence(now));
        }
    }

    /// Whether a lane waits to be fenced.
    pub(crate) fn has_unfenced(&self) -> bool {
        self.owned().values().any(|lane| matches!(lane.fence_state, FenceState::Unfenced { .. }))
    }

    /// Gives up a lane that somebody else fenced: it is theirs, or will be taken again.
    pub(crate) fn lose(&self, ownership: LaneOwnership, now: BootInstant) -> bool {
        let lost = {
            let mut owned = self.owned();
            let is_held = owned.get(&ownership.lane()).is_some_and(|lane| lane.ownership == ownership);
            is_held.then(|| owned.remove(&ownership.lane())).flatten()
        };
        let Some(lost) = lost else { return false };
        // Two nodes that fence each other would do so without a pause if each one started from the first delay.
        if let Some(fence_state) = lost.fence_state.retry(now) {
            self.fenced_out.lock().unwrap_or_else(PoisonError::into_inner).insert(ownership.lane(), fence_state);
        }
        self.balancer_wakeup.notify_one();
        true
    }

    /// The fence state with which a lane is taken.
    pub(crate) fn fence_state_for(&self, lane: u16, now: BootInstant) -> FenceState {
        let fenced_out = self.fenced_out.lock().unwrap_or_else(PoisonError::into_inner).remove(&lane);
        fenced_out.unwrap_or_else(|| FenceState::unfenced(now))
    }

    /// Whether everything handed over so far was read, sent and answered, in the lanes that this process owns.
    pub(crate) fn is_idle(&self) -> bool {
        let owned = self.owned();
        let is_owned = |lane| owned.contains_key(&lane);
        !self.pending_reads.any(is_owned) && !self.arrivals.any(is_owned) && owned.values().all(Lane::is_idle)
    }

    pub(crate) fn view(&self) -> LaneView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_view(&self, view: LaneView) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// How long the oldest row of the owned lanes has waited, not counting rows behind a failed one of their key.
    pub(crate) fn overdue_by(&self, now: BootInstant) -> Duration {
        let oldest = *self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        oldest.map_or(Duration::ZERO, |since| since.until(now))
    }

    pub(crate) fn note_oldest(&self) {
        let oldest = self.owned().values().filter_map(Lane::oldest).min();
        *self.oldest.lock().unwrap_or_else(PoisonError::into_inner) = oldest;
    }

    /// Whether this node owns the lane.
    pub(crate) fn owns(&self, lane: u16) -> bool {
        self.owned().contains_key(&lane)
    }

    pub(crate) fn owned(&self) -> MutexGuard<'_, BTreeMap<u16, Lane>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the row is so young that nobody had time to delete or edit it by hand.
pub(crate) fn is_fresh(inline: &InlineRow, now: BootInstant) -> bool {
    inline.inserted_at.until(now) < LANE_INLINE_AGE_MAX
}

/// All lanes, beginning behind the one at `turn`.
fn in_turn(owned: &BTreeMap<u16, Lane>, turn: u16) -> impl Iterator<Item = (&u16, &Lane)> {
    owned.range(turn.saturating_add(1)..).chain(owned.range(..=turn))
}

#[cfg(test)]
pub(super) mod tests;
