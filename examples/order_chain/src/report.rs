//! What a run prints.

mod tally;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use self::tally::Tally;
use crate::domain::{OrderRow, OrderState};
use crate::load::told::Answers;
use crate::reconcile::Findings;

/// How often each fault happened, and the longest time until all was settled that had happened before its end.
pub(crate) type Settled = BTreeMap<String, (u64, Duration)>;

/// The figures of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) load: Duration,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) unanswered: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) states: BTreeMap<&'static str, u64>,
    pub(crate) deaths: BTreeMap<String, u64>,
    pub(crate) faults: Settled,
    pub(crate) quiet_after: Duration,
    pub(crate) broken_promises: Vec<String>,
    tally: Tally,
    pub(crate) findings: Findings,
}

impl Report {
    pub(crate) fn new(
        (seed, load): (u64, Duration),
        (faults, deaths): (Settled, BTreeMap<String, u64>),
        answers: &mut Answers,
        orders: &[OrderRow],
        (quiet_after, findings): (Duration, Findings),
    ) -> Self {
        Self {
            seed,
            load,
            statuses: answers.statuses.clone(),
            unanswered: answers.unanswered,
            p50: answers.latency(50),
            p99: answers.latency(99),
            states: states(orders),
            deaths,
            faults,
            quiet_after,
            broken_promises: answers.broken_promises(orders),
            tally: Tally::of(&findings, orders, answers),
            findings,
        }
    }

    /// Whether every place agrees, and with what customers were told.
    pub(crate) fn is_right(&self) -> bool {
        self.findings.is_equal() && self.broken_promises.is_empty() && self.tally == Tally::default()
    }
}

/// Orders by state.
fn states(orders: &[OrderRow]) -> BTreeMap<&'static str, u64> {
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
        if !self.deaths.is_empty() {
            writeln!(f, "deaths at a step: {}: {:?}", self.deaths.values().sum::<u64>(), self.deaths)?;
        }
        writeln!(f, "faults: {}", self.faults.values().map(|(count, _)| count).sum::<u64>())?;
        for (fault, (count, longest)) in &self.faults {
            writeln!(f, "  {fault}: {count} times, settled within {:.1} s", longest.as_secs_f64())?;
        }
        writeln!(f, "after the load everything was quiet within {:.1} s:", self.quiet_after.as_secs_f64())?;
        write!(f, "{}{}", self.findings, self.tally)?;
        for promise in &self.broken_promises {
            writeln!(f, "  BROKEN PROMISE: {promise}")?;
        }
        for moving in self.findings.moving.iter().take(20) {
            writeln!(f, "  STILL ON ITS WAY: {moving}")?;
        }
        writeln!(f, "{}", if self.is_right() { "EQUAL" } else { "NOT EQUAL" })
    }
}
