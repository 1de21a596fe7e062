use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::limits::{KAFKA_PARTITION_STALL, KAFKA_PARTITION_STALLED_MAX};

/// How many partitions each topic has, and what waits in the client for each of them.
///
/// A partition without leader keeps what it is given until it times out. Were it given everything, it would soon hold
/// all that may be in flight, and partitions that work would get nothing.
#[derive(Debug)]
pub(super) struct Partitions {
    topics: RwLock<HashMap<Arc<str>, Slots>>,
    clock: Stopwatch,
}

/// The partitions of one topic, in order.
pub(super) type Slots = Arc<[Arc<Slot>]>;

/// One partition.
#[derive(Debug)]
pub(super) struct Slot {
    clock: Stopwatch,
    waiting: AtomicU32,
    /// Milliseconds of the clock when it was last answered for, or when the first of those that wait came.
    moved_at: AtomicU64,
    /// The last message that had an outcome was answered by the broker.
    answers: AtomicBool,
}

/// Milliseconds since a beginning, and when any partition was last answered for.
#[derive(Debug, Clone)]
struct Stopwatch {
    started: Instant,
    answered_at: Arc<AtomicU64>,
}

impl Stopwatch {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Partitions {
    pub(super) fn new() -> Self {
        let clock = Stopwatch { started: Instant::now(), answered_at: Arc::default() };
        Self { topics: RwLock::default(), clock }
    }

    /// Learns how many partitions a topic has. What waits in those that were known stays counted.
    pub(super) fn learn(&self, topic: &Arc<str>, count: usize) {
        let known = self.of(topic);
        if known.as_ref().is_none_or(|slots| slots.len() != count) {
            let slots = (0..count).map(|index| match known.as_deref().and_then(|slots| slots.get(index)) {
                Some(slot) => Arc::clone(slot),
                None => Arc::new(Slot::new(self.clock.clone())),
            });
            let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
            topics.insert(Arc::clone(topic), slots.collect());
        }
    }

    /// The partitions of a topic, in order, where they are known.
    pub(super) fn of(&self, topic: &str) -> Option<Slots> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// The topics that are known.
    pub(super) fn topics(&self) -> Vec<Arc<str>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Slot {
    fn new(clock: Stopwatch) -> Self {
        Self { clock, waiting: AtomicU32::new(0), moved_at: AtomicU64::new(0), answers: AtomicBool::new(true) }
    }

    /// Counts one more message, unless the partition is stalled.
    ///
    /// Stalled means that others take messages and it does not. Without the comparison a broker that pauses as a whole
    /// would have every message sent back to its row, and an outage is to write nothing.
    pub(super) fn enter(&self) -> bool {
        let now = self.clock.now();
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting == 0 {
            self.moved_at.store(now, Ordering::Relaxed);
        } else if waiting >= KAFKA_PARTITION_STALLED_MAX {
            let moved_at = self.moved_at.load(Ordering::Relaxed);
            let still = Duration::from_millis(now.saturating_sub(moved_at));
            let stands = still >= KAFKA_PARTITION_STALL || !self.answers.load(Ordering::Relaxed);
            if stands && self.clock.answered_at.load(Ordering::Relaxed) > moved_at {
                return false;
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes back what [`enter`](Self::enter) counted: the message has its outcome, from the broker or (`answered` is
    /// false) from the client, which waited for it in vain.
    pub(super) fn leave(&self, answered: bool) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.answers.store(answered, Ordering::Relaxed);
        if answered {
            let now = self.clock.now();
            self.moved_at.store(now, Ordering::Relaxed);
            self.clock.answered_at.store(now, Ordering::Relaxed);
        }
    }
}
