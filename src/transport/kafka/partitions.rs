use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::limits::{
    KAFKA_PARTITION_STALL, KAFKA_PARTITION_STALL_SUSPECT, KAFKA_PARTITION_STALLED_MAX, KAFKA_SUSPICION_DURATION,
};

/// How many partitions each topic has, and what waits in the client for each of them.
///
/// A partition without leader keeps what it is given until it times out. Were it given everything, it would soon hold
/// all that may be in flight, and partitions that work would get nothing.
#[derive(Debug)]
pub(super) struct Partitions {
    topics: RwLock<HashMap<Arc<str>, PartitionList>>,
    activity: Arc<ActivityClock>,
}

/// The partitions of one topic, in order.
pub(super) type PartitionList = Arc<[Arc<Partition>]>;

/// One partition.
#[derive(Debug)]
pub(super) struct Partition {
    activity: Arc<ActivityClock>,
    waiting: AtomicU32,
    /// When it was last answered for, or when the first of those that wait came.
    progressed_at: AtomicU64,
    /// The last message that had an outcome was answered by the broker.
    answers: AtomicBool,
    /// It had a leader when its topic was last looked up.
    has_leader: AtomicBool,
}

/// A message's place in a partition, given back when it is dropped.
#[derive(Debug)]
pub(super) struct PartitionPermit(Arc<Partition>);

impl PartitionPermit {
    /// The broker answered for the message, or (false) the client waited for that in vain.
    pub(super) fn answered(&self, answered: bool) {
        self.0.answered(answered);
    }
}

impl Drop for PartitionPermit {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a partition takes one more message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It does.
    Open,
    /// It does, and its topic should be looked up.
    Suspect,
    /// It does not, and its topic should be looked up.
    Closed,
}

/// When things last happened to any partition, in milliseconds of a clock of its own.
#[derive(Debug)]
pub(super) struct ActivityClock {
    started: Instant,
    /// A broker answered for one.
    answered_at: AtomicU64,
    /// A connection to a broker broke; zero is never.
    disconnected_at: AtomicU64,
}

impl ActivityClock {
    fn new() -> Self {
        Self { started: Instant::now(), answered_at: AtomicU64::new(0), disconnected_at: AtomicU64::new(0) }
    }

    /// Takes note that a connection broke.
    pub(super) fn record_disconnect(&self) {
        self.disconnected_at.store(self.now().max(1), Ordering::Relaxed);
    }

    /// Whether a connection broke of late, so that a partition that stands still is likely to stay so.
    fn is_suspicious(&self, now: u64) -> bool {
        let disconnected_at = self.disconnected_at.load(Ordering::Relaxed);
        disconnected_at > 0 && since(disconnected_at, now) < KAFKA_SUSPICION_DURATION
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn since(then: u64, now: u64) -> Duration {
    Duration::from_millis(now.saturating_sub(then))
}

impl Partitions {
    pub(super) fn new() -> Self {
        Self { topics: RwLock::default(), activity: Arc::new(ActivityClock::new()) }
    }

    pub(super) fn activity(&self) -> &Arc<ActivityClock> {
        &self.activity
    }

    /// Learns which partitions a topic has, and which of them have a leader. What waits in those that were known stays
    /// counted.
    pub(super) fn update(&self, topic: &Arc<str>, led: &[bool]) {
        let known = self.of(topic);
        let slot = |index| known.as_ref().and_then(|slots| slots.get(index)).cloned();
        let slot = |index| slot(index).unwrap_or_else(|| Arc::new(Partition::new(Arc::clone(&self.activity))));
        let slots: PartitionList = (0..led.len()).map(slot).collect();
        for (slot, has_leader) in slots.iter().zip(led) {
            slot.has_leader.store(*has_leader, Ordering::Relaxed);
        }
        if known.is_none_or(|known| known.len() != slots.len()) {
            self.topics.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(topic), slots);
        }
    }

    /// The partitions of a topic, where they are known.
    pub(super) fn of(&self, topic: &str) -> Option<PartitionList> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// The topics that are known.
    pub(super) fn topics(&self) -> Vec<Arc<str>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Partition {
    fn new(activity: Arc<ActivityClock>) -> Self {
        Self {
            activity,
            waiting: AtomicU32::new(0),
            progressed_at: AtomicU64::new(0),
            answers: AtomicBool::new(true),
            has_leader: AtomicBool::new(true),
        }
    }

    /// A place for one more message, unless the partition stands still.
    ///
    /// That is said only while others move. Without the comparison a broker that pauses as a whole would have every
    /// message sent back to its row, and an outage is to write nothing. Under a burst a partition may well wait some
    /// tenths of a second for its turn, so without a broken connection or a missing leader it is given longer.
    pub(super) fn enter(self: &Arc<Self>) -> (Admission, Option<PartitionPermit>) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let mut admission = Admission::Open;
        if waiting == 0 {
            self.progressed_at.store(self.activity.now(), Ordering::Relaxed);
        } else if waiting >= KAFKA_PARTITION_STALLED_MAX {
            admission = self.admission(self.activity.now());
        }
        if admission == Admission::Closed {
            return (admission, None);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        (admission, Some(PartitionPermit(Arc::clone(self))))
    }

    fn admission(&self, now: u64) -> Admission {
        let progressed_at = self.progressed_at.load(Ordering::Relaxed);
        if self.activity.answered_at.load(Ordering::Relaxed) <= progressed_at {
            return Admission::Open;
        }
        let has_leader = self.has_leader.load(Ordering::Relaxed);
        let is_suspicious = !has_leader || self.activity.is_suspicious(now);
        let bound = if is_suspicious { KAFKA_PARTITION_STALL_SUSPECT } else { KAFKA_PARTITION_STALL };
        let still = since(progressed_at, now);
        if still >= bound || !self.answers.load(Ordering::Relaxed) {
            Admission::Closed
        } else if still >= KAFKA_PARTITION_STALL_SUSPECT {
            Admission::Suspect
        } else {
            Admission::Open
        }
    }

    fn answered(&self, answered: bool) {
        self.answers.store(answered, Ordering::Relaxed);
        if answered {
            let now = self.activity.now();
            self.progressed_at.store(now, Ordering::Relaxed);
            self.activity.answered_at.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition that stands still since the beginning, while others move.
    fn still() -> Arc<Partition> {
        let activity = Arc::new(ActivityClock::new());
        activity.answered_at.store(u64::MAX, Ordering::Relaxed);
        Arc::new(Partition::new(activity))
    }

    fn admissions(slot: &Partition, at: Duration) -> [Admission; 2] {
        let at = u64::try_from(at.as_millis()).expect("seconds");
        [slot.admission(at - 1), slot.admission(at)]
    }

    #[test]
    fn a_stalled_partition_holds_few_messages_and_accepts_no_more() {
        let slot = still();
        slot.answered(false);
        let mut places: Vec<PartitionPermit> = Vec::new();
        while let (Admission::Open, Some(place)) = slot.enter() {
            places.push(place);
            assert!(places.len() <= 1_000_000, "it takes everything");
        }
        assert_eq!(places.len(), KAFKA_PARTITION_STALLED_MAX as usize);
        assert_eq!(slot.enter().0, Admission::Closed);
        places.pop();
        assert_eq!(slot.enter().0, Admission::Open);
    }

    #[test]
    fn a_suspect_partition_has_less_time() {
        let slot = still();
        assert_eq!(admissions(&slot, KAFKA_PARTITION_STALL_SUSPECT), [Admission::Open, Admission::Suspect]);
        assert_eq!(admissions(&slot, KAFKA_PARTITION_STALL), [Admission::Suspect, Admission::Closed]);
        slot.has_leader.store(false, Ordering::Relaxed);
        assert_eq!(admissions(&slot, KAFKA_PARTITION_STALL_SUSPECT), [Admission::Open, Admission::Closed]);
    }

    #[test]
    fn a_broken_connection_makes_a_partition_suspect_for_a_while() {
        let slot = still();
        slot.activity.disconnected_at.store(1, Ordering::Relaxed);
        assert_eq!(admissions(&slot, KAFKA_PARTITION_STALL_SUSPECT), [Admission::Open, Admission::Closed]);
        let over = KAFKA_SUSPICION_DURATION + Duration::from_millis(1);
        let progressed_at = over - KAFKA_PARTITION_STALL_SUSPECT * 2;
        slot.progressed_at.store(u64::try_from(progressed_at.as_millis()).expect("seconds"), Ordering::Relaxed);
        assert_eq!(admissions(&slot, over), [Admission::Closed, Admission::Suspect]);
    }
}
