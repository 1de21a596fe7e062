//! The lanes of one ordered topic as this process sees them.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::arrivals::Arrivals;
use super::commits::Commits;
use super::lane::Lane;
use super::page::{Found, KeyHash, Page, Scan, Waiting};
use super::tenure::Tenure;
use super::way::Way;
use super::woken::Woken;
use crate::clock::BootInstant;
use crate::limits::LANE_CARRIED_AGE_MAX;
use crate::relay::queue::Carried;
use crate::relay::topics::TopicState;
use crate::store::{LaneCount, LaneEntry, LaneView, RowKey};
use crate::transport::{FencedLane, Run};

mod committed;

#[derive(Debug)]
pub(crate) struct TopicLanes {
    pub(crate) topic: Arc<TopicState>,
    owned: Mutex<BTreeMap<u16, Lane>>,
    /// How lanes go on that somebody else fenced, should they be taken anew.
    fenced_out: Mutex<BTreeMap<u16, Way>>,
    /// Lanes that the broker is asked to fence, in this tenure or the one before. Until that has ended none of them is asked for again,
    /// nor handed over: it would fence whoever comes next.
    asked: Mutex<BTreeSet<u16>>,
    /// What was committed, here or elsewhere. Apart from the lanes, because it is written by whoever commits.
    woken: Woken,
    /// What was committed here and its owners elsewhere were not told yet.
    untold: Woken,
    /// When it was, and the rows that came along.
    commits: Commits,
    /// What is about to be committed here.
    announced: Woken,
    /// What was committed here behind such an announcement.
    arrivals: Arrivals,
    view: Mutex<LaneView>,
    /// Since when the oldest row waits that is in nobody's way, as the keeper found it.
    oldest: Mutex<Option<BootInstant>>,
    /// The reader may find something to do.
    pub(crate) wake: Notify,
    /// The keeper should look.
    pub(crate) keep: Notify,
    /// A lane may have to be fenced.
    pub(crate) fence: Notify,
    hasher: RandomState,
    /// Rows that were read, or came with their commit, so far.
    seen: AtomicU64,
    /// Whether the database was seen to have these lanes.
    is_prepared: AtomicBool,
    /// Since when reading failed each time.
    failing_since: Mutex<Option<BootInstant>>,
    /// Until when this node leaves the lanes to others.
    asleep_until: Mutex<Option<BootInstant>>,
}

/// A row whose turn it is.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) tenure: Tenure,
    pub(crate) valid_until: BootInstant,
    pub(crate) key: KeyHash,
    pub(crate) waiting: Waiting,
    pub(crate) run: Option<Run>,
}

impl TopicLanes {
    pub(crate) fn new(topic: Arc<TopicState>) -> Self {
        Self {
            topic,
            owned: Mutex::default(),
            fenced_out: Mutex::default(),
            asked: Mutex::default(),
            woken: Woken::default(),
            untold: Woken::default(),
            commits: Commits::default(),
            announced: Woken::default(),
            arrivals: Arrivals::default(),
            view: Mutex::default(),
            oldest: Mutex::default(),
            wake: Notify::new(),
            keep: Notify::new(),
            fence: Notify::new(),
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

    /// How many lanes it is to have.
    pub(crate) fn count(&self) -> LaneCount {
        LaneCount { topic: self.name(), lanes: self.topic.topic.lane_count().unwrap_or(0) }
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.is_prepared.load(Ordering::Acquire)
    }

    pub(crate) fn set_prepared(&self) {
        self.is_prepared.store(true, Ordering::Release);
    }

    /// Notes whether reading succeeded.
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

    /// When a row was committed, where that was lately and in this process; once.
    pub(crate) fn committed_at(&self, row: RowKey) -> Option<BootInstant> {
        self.commits.take_time(row.id)
    }

    /// A row whose turn it is, where it came along with its commit and needs not be read; once.
    ///
    /// That it is committed, and its place, are known from the page that showed it; what only the database would know is
    /// whether somebody touched it since it was written. By hand anybody may, so it is not given when it has waited.
    pub(crate) fn carried(&self, turn: &Turn, now: BootInstant) -> Option<Box<Carried>> {
        let carried = self.commits.take_row(turn.waiting.row.id)?;
        let owned = self.owned();
        let lane = owned.get(&turn.tenure.lane()).filter(|lane| lane.tenure == turn.tenure)?;
        let key = carried.row.key;
        let is_as_written = key == turn.waiting.row && lane.is_untouched(turn.key, key, carried.inserted_at);
        (is_young(&carried, now) && is_as_written).then_some(carried)
    }

    /// Rows were committed to a lane in this process, of which its owner is to be told where that is another. Never waits,
    /// either.
    pub(crate) fn is_untold(&self, lane: u16, id: Option<i64>) {
        self.untold.note(lane, id);
    }

    /// What to tell of, without what is this node's own by now.
    pub(crate) fn take_untold(&self) -> Vec<(u16, Option<i64>)> {
        let mut untold = self.untold.take();
        if !untold.is_empty() {
            let owned = self.owned();
            untold.retain(|lane, _| !owned.contains_key(lane));
        }
        untold.into_iter().collect()
    }

    /// Anything may have been committed to any lane.
    pub(crate) fn look_again(&self) {
        self.owned().values_mut().for_each(|lane| lane.woken(None));
        self.wake.notify_one();
    }

    /// Lets every key that waits behind a failed row try now: somebody says that what made it fail is over.
    pub(crate) fn retry_held(&self) {
        self.owned().values_mut().for_each(Lane::unblock_all);
        self.wake.notify_one();
    }

    /// What to read next, a page each of `lanes_max` lanes at most, beginning behind the lane at `turn`.
    pub(crate) fn scans(&self, turn: &mut u16, lanes_max: usize, now: BootInstant) -> Vec<(Tenure, Scan)> {
        let owned = self.owned();
        let wanted = in_turn(&owned, *turn).filter_map(|(_, lane)| Some((lane.tenure, lane.next_scan(now)?)));
        let wanted: Vec<(Tenure, Scan)> = wanted.take(lanes_max).collect();
        *turn = wanted.last().map_or(*turn, |(tenure, _)| tenure.lane());
        wanted
    }

    /// Takes in what was read of a lane; returns how many rows came late.
    pub(crate) fn note(
        &self,
        (tenure, scan): (Tenure, Scan),
        entries: &[LaneEntry],
        is_full: bool,
        read_at: (BootInstant, BootInstant),
        late_at: BootInstant,
        is_delivered: impl Fn(RowKey) -> Option<bool>,
    ) -> usize {
        let found = |entry: &LaneEntry| {
            // Known of rows in this process's hand, and of no other.
            let delivered = is_delivered(entry.row);
            let key = self.hasher.hash_one(entry.key.as_deref());
            // Where a database does not tell how old a row is, it counts from here.
            let age = if entry.age == Duration::MAX { Duration::ZERO } else { entry.age };
            let waiting = Waiting { row: entry.row, bytes: entry.bytes, since: read_at.1 - age };
            (delivered != Some(true)).then(|| Found { key, waiting, in_hand: delivered.is_some() })
        };
        let mut owned = self.owned();
        let Some(lane) = owned.get_mut(&tenure.lane()).filter(|lane| lane.tenure == tenure) else { return 0 };
        let news = entries.iter().filter(|entry| entry.row.id > lane.seen_to()).count() as u64;
        // Looked at under the lock, behind which rows become known: none is missed between the two.
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

    /// Takes rows whose turn it is, from one lane after the other, beginning behind the lane at `turn`.
    pub(crate) fn take(&self, turn: &mut u16, rows_max: usize, bytes_max: usize, now: BootInstant) -> Vec<Turn> {
        let mut owned = self.owned();
        let order: Vec<u16> = in_turn(&owned, *turn).map(|(number, _)| *number).collect();
        let (mut taken, mut bytes) = (Vec::new(), 0_usize);
        for number in order {
            let Some(lane) = owned.get_mut(&number).filter(|lane| lane.may_send(now)) else { continue };
            while taken.len() < rows_max {
                // One row goes whatever its size, or it never would.
                let room = if taken.is_empty() { usize::MAX } else { bytes_max.saturating_sub(bytes) };
                let Some((key, waiting, run)) = lane.take(room) else { break };
                bytes = bytes.saturating_add(waiting.bytes);
                taken.push(Turn { tenure: lane.tenure, valid_until: lane.valid_until, key, waiting, run });
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

    /// When there is something to do although nobody wakes.
    pub(crate) fn next_at(&self) -> Option<BootInstant> {
        self.owned().values().filter_map(Lane::next_at).min()
    }

    /// Does something to a row's lane, where that is still owned as it was then, and wakes the reader.
    pub(crate) fn with_lane(&self, tenure: Tenure, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.owned().get_mut(&tenure.lane()).filter(|lane| lane.tenure == tenure) {
            change(lane);
            // Once the last of its rows is back in its place, it can be fenced anew.
            if matches!(lane.way, Way::Unfenced { .. }) {
                self.fence.notify_one();
            }
        }
        self.wake.notify_one();
    }

    /// The way out of a fenced lane, where it has one.
    pub(crate) fn fenced(&self, tenure: Tenure) -> Option<Arc<dyn FencedLane>> {
        match &self.owned().get(&tenure.lane()).filter(|lane| lane.tenure == tenure)?.way {
            Way::Fenced { by, .. } => Some(Arc::clone(by)),
            Way::Plain | Way::Unfenced { .. } => None,
        }
    }

    /// Lanes that are to be fenced now, of which the broker counts as asked from here on: nothing of them is under way, so that what
    /// goes next is the first of each key.
    pub(crate) fn to_fence(&self, lanes_max: usize, now: BootInstant) -> Vec<Tenure> {
        let is_due = |lane: &Lane| match lane.way {
            Way::Unfenced { from, .. } => from <= now && now < lane.valid_until && !lane.is_given_up,
            Way::Plain | Way::Fenced { .. } => false,
        };
        // Under both: who hands lanes over sees each of them owned and asked for, or neither.
        let (owned, mut asked) = (self.owned(), self.asked());
        let due = owned.values().filter(|lane| is_due(lane) && !lane.is_sending()).map(|lane| lane.tenure);
        due.filter(|tenure| asked.insert(tenure.lane())).take(lanes_max).collect()
    }

    /// Lanes that the broker is asked to fence. Locked after the lanes themselves where both are.
    pub(crate) fn asked(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked of the broker has ended.
    pub(crate) fn note_answered(&self, tenure: Tenure) {
        self.asked().remove(&tenure.lane());
    }

    /// Nobody waits any more for what was asked of the broker; it is asked again after a while.
    pub(crate) fn forget_asked(&self, now: BootInstant) {
        let (mut owned, mut asked) = (self.owned(), self.asked());
        for lane in std::mem::take(&mut *asked) {
            owned.get_mut(&lane).into_iter().for_each(|lane| lane.unfence(now));
        }
    }

    /// Whether a lane waits to be fenced.
    pub(crate) fn has_unfenced(&self) -> bool {
        self.owned().values().any(|lane| matches!(lane.way, Way::Unfenced { .. }))
    }

    /// Gives up a lane that somebody else fenced: it is theirs, or will be taken anew.
    pub(crate) fn lose(&self, tenure: Tenure, now: BootInstant) -> bool {
        let lost = {
            let mut owned = self.owned();
            let is_held = owned.get(&tenure.lane()).is_some_and(|lane| lane.tenure == tenure);
            is_held.then(|| owned.remove(&tenure.lane())).flatten()
        };
        let Some(lost) = lost else { return false };
        // Two that fence each other would do so without a wait, if each began as if it were the first time.
        if let Some(way) = lost.way.anew(now) {
            self.fenced_out.lock().unwrap_or_else(PoisonError::into_inner).insert(tenure.lane(), way);
        }
        self.keep.notify_one();
        true
    }

    /// How a fenced lane begins that is taken.
    pub(crate) fn way_anew(&self, lane: u16, now: BootInstant) -> Way {
        let fenced_out = self.fenced_out.lock().unwrap_or_else(PoisonError::into_inner).remove(&lane);
        fenced_out.unwrap_or_else(|| Way::unfenced(now))
    }

    /// Whether everything handed over so far was read, sent and answered, as far as this process owns its lane.
    pub(crate) fn is_idle(&self) -> bool {
        let owned = self.owned();
        let is_owned = |lane| owned.contains_key(&lane);
        !self.woken.any(is_owned) && !self.arrivals.any(is_owned) && owned.values().all(Lane::is_idle)
    }

    pub(crate) fn view(&self) -> LaneView {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_view(&self, view: LaneView) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// For how long the oldest row of the owned lanes waits, but for those behind a failed one of their key.
    pub(crate) fn overdue_by(&self, now: BootInstant) -> Duration {
        let oldest = *self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        oldest.map_or(Duration::ZERO, |since| since.until(now))
    }

    pub(crate) fn note_oldest(&self) {
        let oldest = self.owned().values().filter_map(Lane::oldest).min();
        *self.oldest.lock().unwrap_or_else(PoisonError::into_inner) = oldest;
    }

    pub(crate) fn owned(&self) -> MutexGuard<'_, BTreeMap<u16, Lane>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nobody had the time to delete the row by hand, or to mend it.
pub(crate) fn is_young(carried: &Carried, now: BootInstant) -> bool {
    carried.inserted_at.until(now) < LANE_CARRIED_AGE_MAX
}

/// All of them, beginning behind the one at `turn`.
fn in_turn(owned: &BTreeMap<u16, Lane>, turn: u16) -> impl Iterator<Item = (&u16, &Lane)> {
    owned.range(turn.saturating_add(1)..).chain(owned.range(..=turn))
}

#[cfg(test)]
pub(super) mod tests;
