//! Assigned partitions that are not read yet.

use std::time::{Duration, Instant};

use super::record::PartitionId;
use crate::limits::{CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_OUTAGE_WAIT_MIN};

#[derive(Debug)]
pub(crate) struct Openings {
    list: Vec<Opening>,
    wait: Duration,
    numbers: u64,
}

#[derive(Debug)]
struct Opening {
    id: PartitionId,
    /// Tells assignments of the same partition apart: what was asked for an earlier one may be wrong by now.
    number: u64,
    /// When to try next; `None` while the database is asked.
    at: Option<Instant>,
}

impl Openings {
    pub(crate) fn new() -> Self {
        Self { list: Vec::new(), wait: CONSUMER_OUTAGE_WAIT_MIN, numbers: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Begins with a partition, or begins again.
    pub(crate) fn add(&mut self, id: PartitionId, now: Instant) {
        self.remove(&id);
        self.numbers += 1;
        self.list.push(Opening { id, number: self.numbers, at: Some(now) });
    }

    pub(crate) fn retain(&mut self, is_assigned: impl Fn(&PartitionId) -> bool) {
        self.list.retain(|opening| is_assigned(&opening.id));
    }

    /// One that is due, and its number.
    pub(crate) fn due(&self, now: Instant) -> Option<(PartitionId, u64)> {
        let due = self.list.iter().find(|opening| opening.at.is_some_and(|at| at <= now))?;
        Some((due.id.clone(), due.number))
    }

    /// Notes that the database is asked.
    pub(crate) fn asked(&mut self, number: u64) {
        self.set(number, None);
    }

    /// Whether this opening still goes on.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.list.iter().any(|opening| opening.number == number)
    }

    /// Tries it again after a while.
    pub(crate) fn failed(&mut self, number: u64, now: Instant) {
        self.wait = (self.wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
        self.set(number, Some(now + self.wait));
    }

    pub(crate) fn done(&mut self, number: u64) {
        self.list.retain(|opening| opening.number != number);
        self.wait = CONSUMER_OUTAGE_WAIT_MIN;
    }

    fn remove(&mut self, id: &PartitionId) {
        self.list.retain(|opening| opening.id != *id);
    }

    fn set(&mut self, number: u64, at: Option<Instant>) {
        self.list.iter_mut().filter(|opening| opening.number == number).for_each(|opening| opening.at = at);
    }
}
