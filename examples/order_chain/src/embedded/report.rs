//! What a run prints.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::faults::Fault;
use crate::domain::{OrderRow, OrderState};
use crate::reconcile::Findings;

/// The figures of a run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seed: u64,
    pub(super) load: Duration,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) unanswered: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) states: BTreeMap<&'static str, u64>,
    pub(super) deaths: BTreeMap<String, u64>,
    pub(super) faults: BTreeMap<Fault, (u64, Duration)>,
    pub(super) quiet_after: Duration,
    pub(super) broken_promises: Vec<String>,
    pub(super) findings: Findings,
}

impl Report {
    /// Whether every place agrees, and with what customers were told.
    pub(super) fn is_right(&self) -> bool {
        self.findings.is_equal() && self.broken_promises.is_empty()
    }
}

/// Orders by state.
pub(super) fn states(orders: &[OrderRow]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for state in [OrderState::Created, OrderState::Paid, OrderState::Cancelled] {
        counts.insert(state.text(), orders.iter().filter(|row| row.state == state).count() as u64);
    }
    counts
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let orders: u64 = self.states.values().sum();
        writeln!(f, "\nseed {}, {:.0} s of load", self.seed, self.load.as_secs_f64())?;
        writeln!(f, "orders: {orders} ({:.0}/s): {:?}", orders as f64 / self.load.as_secs_f64(), self.states)?;
        writeln!(f, "POST /orders: p50 {:.1} ms, p99 {:.1} ms", millis(self.p50), millis(self.p99))?;
        writeln!(f, "answers: {:?}; requests without one, which were repeated: {}", self.statuses, self.unanswered)?;
        let deaths: u64 = self.deaths.values().sum();
        writeln!(f, "deaths at a step: {deaths}: {:?}", self.deaths)?;
        for (fault, (count, longest)) in &self.faults {
            writeln!(f, "{fault}: {count} times, settled within {:.1} s", longest.as_secs_f64())?;
        }
        writeln!(f, "after the load everything was quiet within {:.1} s:", self.quiet_after.as_secs_f64())?;
        write!(f, "{}", self.findings)?;
        for promise in &self.broken_promises {
            writeln!(f, "  BROKEN PROMISE: {promise}")?;
        }
        for moving in self.findings.moving.iter().take(20) {
            writeln!(f, "  STILL ON ITS WAY: {moving}")?;
        }
        writeln!(f, "{}", if self.is_right() { "EQUAL" } else { "NOT EQUAL" })
    }
}
