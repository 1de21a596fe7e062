//! What a run prints.

mod outcome;
mod tally;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub(crate) use self::outcome::{Outcome, SideBySide};
use self::tally::Tally;
use crate::domain::{OrderRow, OrderState};
use crate::load::told::Answers;
use crate::reconcile::Findings;

/// What came of each kind of fault.
pub(crate) type Settled = BTreeMap<String, Times>;

/// What came of a kind of fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long it took until all was settled that had happened before the fault's end.
    pub(crate) took: Vec<Duration>,
    /// Those after which it was not settled in the end.
    pub(crate) open: usize,
}

impl Times {
    fn count(&self) -> usize {
        self.took.len() + self.open
    }

    /// Within which half had settled, and within which all had.
    fn half_and_all(&self) -> (Duration, Duration) {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = |index: usize| took.get(index).copied().unwrap_or_default();
        (at(took.len().saturating_sub(1) / 2), at(took.len().saturating_sub(1)))
    }
}

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

/// A line for each kind.
fn write_faults(f: &mut fmt::Formatter<'_>, faults: &Settled) -> fmt::Result {
    writeln!(f, "faults: {}", faults.values().map(Times::count).sum::<usize>())?;
    if !faults.is_empty() {
        writeln!(f, "  {:<32} {:>5} {:>14} {:>14}", "", "times", "half settled", "all settled")?;
    }
    for (fault, times) in faults {
        let (half, all) = times.half_and_all();
        let [half, all] = [half, all].map(|within| format!("{:.1} s", within.as_secs_f64()));
        write!(f, "  {fault:<32} {:>5} {half:>14} {all:>14}", times.count())?;
        if times.open > 0 {
            write!(f, ", {} NOT SETTLED", times.open)?;
        }
        writeln!(f)?;
    }
    Ok(())
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
        write_faults(f, &self.faults)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_has_a_line_with_half_and_all() {
        let took = [9, 1, 4].map(Duration::from_secs).to_vec();
        let faults = Settled::from([
            ("Kafka was killed".to_owned(), Times { took, open: 1 }),
            ("a shop was stopped".to_owned(), Times { took: vec![Duration::from_millis(1_500)], open: 0 }),
        ]);
        struct Faults(Settled);
        impl fmt::Display for Faults {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_faults(f, &self.0)
            }
        }
        let text = Faults(faults).to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["faults:", "5"]);
        assert_eq!(lines[2].join(" "), "Kafka was killed 4 4.0 s 9.0 s, 1 NOT SETTLED");
        assert_eq!(lines[3].join(" "), "a shop was stopped 1 1.5 s 1.5 s");
        assert_eq!(Faults(Settled::new()).to_string(), "faults: 0\n");
    }
}
