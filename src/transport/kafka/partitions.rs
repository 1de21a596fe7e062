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
    topics: RwLock<HashMap<Arc<str>, Slots>>,
    pulse: Arc<Pulse>,
}

/// The partitions of one topic, in order.
pub(super) type Slots = Arc<[Arc<Slot>]>;

/// One partition.
#[derive(Debug)]
pub(super) struct Slot {
    pulse: Arc<Pulse>,
    waiting: AtomicU32,
    /// When it was last answered for, or when the first of those that wait came.
    moved_at: AtomicU64,
    /// The last message that had an outcome was answered by the broker.
    answers: AtomicBool,
    /// It had a leader when its topic was last looked up.
    is_led: AtomicBool,
}

/// A message's place in a partition, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Slot>);

impl Place {
    /// The broker answered for the message, or (false) the client waited for that in vain.
    pub(super) fn answered(&self, answered: bool) {
        self.0.answered(answered);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a partition takes one more message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    /// It does.
    Open,
    /// It does, and its topic should be looked up.
    Doubtful,
    /// It does not, and its topic should be looked up.
    Closed,
}

/// When things last happened to any partition, in milliseconds of a clock of its own.
#[derive(Debug)]
pub(super) struct Pulse {
    started: Instant,
    /// A broker answered for one.
    answered_at: AtomicU64,
    /// A connection to a broker broke; zero is never.
    broke_at: AtomicU64,
}

impl Pulse {
    fn new() -> Self {
        Self { started: Instant::now(), answered_at: AtomicU64::new(0), broke_at: AtomicU64::new(0) }
    }

    /// Takes note that a connection broke.
    pub(super) fn broke(&self) {
        self.broke_at.store(self.now().max(1), Ordering::Relaxed);
    }

    /// Whether a connection broke of late, so that a partition that stands still is likely to stay so.
    fn is_suspicious(&self, now: u64) -> bool {
        let broke_at = self.broke_at.load(Ordering::Relaxed);
        broke_at > 0 && since(broke_at, now) < KAFKA_SUSPICION_DURATION
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
        Self { topics: RwLock::default(), pulse: Arc::new(Pulse::new()) }
    }

    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Learns which partitions a topic has, and which of them have a leader. What waits in those that were known stays
    /// counted.
    pub(super) fn learn(&self, topic: &Arc<str>, led: &[bool]) {
        let known = self.of(topic);
        let slot = |index| known.as_ref().and_then(|slots| slots.get(index)).cloned();
        let slot = |index| slot(index).unwrap_or_else(|| Arc::new(Slot::new(Arc::clone(&self.pulse))));
        let slots: Slots = (0..led.len()).map(slot).collect();
        for (slot, is_led) in slots.iter().zip(led) {
            slot.is_led.store(*is_led, Ordering::Relaxed);
        }
        if known.is_none_or(|known| known.len() != slots.len()) {
            self.topics.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(topic), slots);
        }
    }

    /// The partitions of a topic, where they are known.
    pub(super) fn of(&self, topic: &str) -> Option<Slots> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// The topics that are known.
    pub(super) fn topics(&self) -> Vec<Arc<str>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Slot {
    fn new(pulse: Arc<Pulse>) -> Self {
        Self {
            pulse,
            waiting: AtomicU32::new(0),
            moved_at: AtomicU64::new(0),
            answers: AtomicBool::new(true),
            is_led: AtomicBool::new(true),
        }
    }

    /// A place for one more message, unless the partition stands still.
    ///
    /// That is said only while others move. Without the comparison a broker that pauses as a whole would have every
    /// message sent back to its row, and an outage is to write nothing. Under a burst a partition may well wait some
    /// tenths of a second for its turn, so without a broken connection or a missing leader it is given longer.
    pub(super) fn enter(self: &Arc<Self>) -> (Entrance, Option<Place>) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let mut entrance = Entrance::Open;
        if waiting == 0 {
            self.moved_at.store(self.pulse.now(), Ordering::Relaxed);
        } else if waiting >= KAFKA_PARTITION_STALLED_MAX {
            entrance = self.entrance(self.pulse.now());
        }
        if entrance == Entrance::Closed {
            return (entrance, None);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        (entrance, Some(Place(Arc::clone(self))))
    }

    fn entrance(&self, now: u64) -> Entrance {
        let moved_at = self.moved_at.load(Ordering::Relaxed);
        if self.pulse.answered_at.load(Ordering::Relaxed) <= moved_at {
            return Entrance::Open;
        }
        let is_led = self.is_led.load(Ordering::Relaxed);
        let is_suspicious = !is_led || self.pulse.is_suspicious(now);
        let bound = if is_suspicious { KAFKA_PARTITION_STALL_SUSPECT } else { KAFKA_PARTITION_STALL };
        let still = since(moved_at, now);
        if still >= bound || !self.answers.load(Ordering::Relaxed) {
            Entrance::Closed
        } else if still >= KAFKA_PARTITION_STALL_SUSPECT {
            Entrance::Doubtful
        } else {
            Entrance::Open
        }
    }

    fn answered(&self, answered: bool) {
        self.answers.store(answered, Ordering::Relaxed);
        if answered {
            let now = self.pulse.now();
            self.moved_at.store(now, Ordering::Relaxed);
            self.pulse.answered_at.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition that stands still since the beginning, while others move.
    fn still() -> Arc<Slot> {
        let pulse = Arc::new(Pulse::new());
        pulse.answered_at.store(u64::MAX, Ordering::Relaxed);
        Arc::new(Slot::new(pulse))
    }

    fn entrances(slot: &Slot, at: Duration) -> [Entrance; 2] {
        let at = u64::try_from(at.as_millis()).expect("seconds");
        [slot.entrance(at - 1), slot.entrance(at)]
    }

    #[test]
    fn a_partition_that_stands_still_holds_a_few_and_takes_no_more() {
        let slot = still();
        slot.answered(false);
        let mut places: Vec<Place> = Vec::new();
        while let (Entrance::Open, Some(place)) = slot.enter() {
            places.push(place);
            assert!(places.len() <= 1_000_000, "it takes everything");
        }
        assert_eq!(places.len(), KAFKA_PARTITION_STALLED_MAX as usize);
        assert_eq!(slot.enter().0, Entrance::Closed);
        places.pop();
        assert_eq!(slot.enter().0, Entrance::Open);
    }

    #[test]
    fn it_has_less_time_where_it_is_suspect() {
        let slot = still();
        assert_eq!(entrances(&slot, KAFKA_PARTITION_STALL_SUSPECT), [Entrance::Open, Entrance::Doubtful]);
        assert_eq!(entrances(&slot, KAFKA_PARTITION_STALL), [Entrance::Doubtful, Entrance::Closed]);
        slot.is_led.store(false, Ordering::Relaxed);
        assert_eq!(entrances(&slot, KAFKA_PARTITION_STALL_SUSPECT), [Entrance::Open, Entrance::Closed]);
    }

    #[test]
    fn a_broken_connection_makes_it_suspect_for_a_while() {
        let slot = still();
        slot.pulse.broke_at.store(1, Ordering::Relaxed);
        assert_eq!(entrances(&slot, KAFKA_PARTITION_STALL_SUSPECT), [Entrance::Open, Entrance::Closed]);
        let over = KAFKA_SUSPICION_DURATION + Duration::from_millis(1);
        let moved_at = over - KAFKA_PARTITION_STALL_SUSPECT * 2;
        slot.moved_at.store(u64::try_from(moved_at.as_millis()).expect("seconds"), Ordering::Relaxed);
        assert_eq!(entrances(&slot, over), [Entrance::Closed, Entrance::Doubtful]);
    }
}
