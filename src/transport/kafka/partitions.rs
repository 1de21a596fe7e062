use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::limits::{
    KAFKA_PARTITION_STALL, KAFKA_PARTITION_STALL_SUSPECT, KAFKA_PARTITION_STALLED_MAX, KAFKA_SUSPICION_DURATION,
};

/// The partitions of each topic, and the messages that wait in the client for each.
///
/// A partition without a leader keeps its messages until they time out. Without a limit it would soon hold everything
/// that may be in flight, and working partitions would get nothing.
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
    /// When the broker last answered for it, or when the first waiting message was added.
    progressed_at: AtomicU64,
    /// Whether the last outcome was an answer of the broker.
    is_answering: AtomicBool,
    /// Whether it had a leader at the last metadata lookup.
    has_leader: AtomicBool,
}

/// A message's place in a partition, released when it is dropped.
#[derive(Debug)]
pub(super) struct PartitionPermit(Arc<Partition>);

impl PartitionPermit {
    /// Records whether the broker answered for the message (true) or the client stopped waiting (false).
    pub(super) fn answered(&self, answered: bool) {
        self.0.answered(answered);
    }
}

impl Drop for PartitionPermit {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a partition accepts one more message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It accepts messages.
    Open,
    /// It accepts messages, and its topic needs a metadata lookup.
    Suspect,
    /// It accepts none, and its topic needs a metadata lookup.
    Closed,
}

/// The last events of any partition, in milliseconds of this clock.
#[derive(Debug)]
pub(super) struct ActivityClock {
    started: Instant,
    /// A broker answered for a partition.
    answered_at: AtomicU64,
    /// A connection to a broker broke; zero means never.
    disconnected_at: AtomicU64,
}

impl ActivityClock {
    fn new() -> Self {
        Self { started: Instant::now(), answered_at: AtomicU64::new(0), disconnected_at: AtomicU64::new(0) }
    }

    /// Records that a connection broke.
    pub(super) fn record_disconnect(&self) {
        self.disconnected_at.store(self.now().max(1), Ordering::Relaxed);
    }

    /// Whether a connection broke recently, so that a stalled partition is likely to stay stalled.
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

    /// Records a topic's partitions, and which of them have a leader. Known partitions keep their counts.
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

    /// The partitions of a topic, if known.
    pub(super) fn of(&self, topic: &str) -> Option<PartitionList> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// The known topics.
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
            is_answering: AtomicBool::new(true),
            has_leader: AtomicBool::new(true),
        }
    }

    /// Takes a place for one more message, unless the partition is stalled.
    ///
    /// A partition counts as stalled only while others make progress. Otherwise a broker that pauses as a whole would
    /// return every message to its row, and an outage must write nothing. In a burst a partition may wait some tenths
    /// of a second for its turn. So without a broken connection or a missing leader the limit is longer.
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
        if still >= bound || !self.is_answering.load(Ordering::Relaxed) {
            Admission::Closed
        } else if still >= KAFKA_PARTITION_STALL_SUSPECT {
            Admission::Suspect
        } else {
            Admission::Open
        }
    }

    fn answered(&self, answered: bool) {
        self.is_answering.store(answered, Ordering::Relaxed);
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

    /// A partition that is stalled from the start, while others make progress.
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
            assert!(places.len() <= 1_000_000, "the partition never closed");
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
