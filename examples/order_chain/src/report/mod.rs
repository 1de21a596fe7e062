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
use crate::quiet::Quiet;

/// Of what did not come to rest at most so much is listed.
const LISTED_MAX: usize = 20;

/// What came of each kind of fault.
pub(crate) type Settled = BTreeMap<String, Times>;

/// What came of a kind of fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How long it took until all was settled that had happened before the fault's end.
    pub(crate) took: Vec<Duration>,
    /// Those after which it was not settled in the end.
    pub(crate) open: usize,
    /// Those that were not timed.
    pub(crate) untimed: usize,
}

impl Times {
    fn count(&self) -> usize {
        self.took.len() + self.open + self.untimed
    }

    /// Within which half had settled, and within which all had.
    fn half_and_all(&self) -> (Duration, Duration) {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = |index: usize| took.get(index).copied().unwrap_or_default();
        (at(took.len().saturating_sub(1) / 2), at(took.len().saturating_sub(1)))
    }
}

/// What was done to a run.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Whether there should have been faults. A run without any then proves nothing.
    pub(crate) are_faults_asked: bool,
    pub(crate) faults: Settled,
    /// Deaths at a step.
    pub(crate) deaths: BTreeMap<String, u64>,
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
    pub(crate) happened: Happened,
    pub(crate) quiet: Quiet,
    pub(crate) broken_promises: Vec<String>,
    tally: Tally,
}

impl Report {
    pub(crate) fn new((seed, load): (u64, Duration), happened: Happened, answers: &mut Answers, quiet: Quiet) -> Self {
        Self {
            seed,
            load,
            statuses: answers.statuses.clone(),
            unanswered: answers.unanswered,
            p50: answers.latency(50),
            p99: answers.latency(99),
            states: states(&quiet.orders),
            happened,
            broken_promises: answers.broken_promises(&quiet.orders),
            tally: Tally::of(&quiet.findings, &quiet.orders, answers),
            quiet,
        }
    }

    /// Whether something happened, every order ended, and every place agrees, also with what customers were told.
    pub(crate) fn is_right(&self) -> bool {
        let is_settled = self.happened.faults.values().all(|times| times.open == 0);
        self.proves_nothing().is_none()
            && self.quiet.is_quiet()
            && is_settled
            && self.broken_promises.is_empty()
            && self.tally == Tally::default()
    }

    /// Why the run says nothing about the chain.
    fn proves_nothing(&self) -> Option<&'static str> {
        let faults: usize = self.happened.faults.values().map(Times::count).sum();
        if self.states.values().sum::<u64>() == 0 {
            Some("there was no order")
        } else if self.happened.are_faults_asked && faults == 0 {
            Some("there was no fault")
        } else {
            None
        }
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
        let text = |within: Duration| match times.took.is_empty() {
            true => "-".to_owned(),
            false => format!("{:.1} s", within.as_secs_f64()),
        };
        let [half, all] = [half, all].map(text);
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
        let deaths = &self.happened.deaths;
        if !deaths.is_empty() {
            writeln!(f, "deaths at a step: {}: {deaths:?}", deaths.values().sum::<u64>())?;
        }
        write_faults(f, &self.happened.faults)?;
        let after = self.quiet.after.as_secs_f64();
        match self.quiet.is_quiet() {
            true => writeln!(f, "after the load everything was quiet within {after:.1} s:")?,
            false => writeln!(f, "{after:.1} s after the load not everything was quiet:")?,
        }
        write!(f, "{}{}", self.quiet.findings, self.tally)?;
        writeln!(f, "orders neither paid nor closed: {}", self.quiet.open().count())?;
        for promise in &self.broken_promises {
            writeln!(f, "  BROKEN PROMISE: {promise}")?;
        }
        for row in self.quiet.open().take(LISTED_MAX) {
            writeln!(f, "  STILL OPEN: order {}", row.order.id)?;
        }
        for moving in self.quiet.findings.moving.iter().take(LISTED_MAX) {
            writeln!(f, "  STILL ON ITS WAY: {moving}")?;
        }
        if let Some(why) = self.proves_nothing() {
            writeln!(f, "  PROVES NOTHING: {why}")?;
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
            ("Kafka was killed".to_owned(), Times { took, open: 1, untimed: 0 }),
            ("a shop was stopped".to_owned(), Times { took: vec![Duration::from_millis(1_500)], ..Times::default() }),
            ("the broker was away".to_owned(), Times { untimed: 2, ..Times::default() }),
        ]);
        struct Faults(Settled);
        impl fmt::Display for Faults {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_faults(f, &self.0)
            }
        }
        let text = Faults(faults).to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["faults:", "7"]);
        assert_eq!(lines[2].join(" "), "Kafka was killed 4 4.0 s 9.0 s, 1 NOT SETTLED");
        assert_eq!(lines[3].join(" "), "a shop was stopped 1 1.5 s 1.5 s");
        assert_eq!(lines[4].join(" "), "the broker was away 2 - -");
        assert_eq!(Faults(Settled::new()).to_string(), "faults: 0\n");
    }

    fn row(state: OrderState) -> OrderRow {
        OrderRow::for_test("a", state, 1)
    }

    fn report(happened: Happened, orders: Vec<OrderRow>) -> Report {
        let quiet = Quiet { orders, ..Quiet::default() };
        Report::new((1, Duration::from_secs(9)), happened, &mut Answers::default(), quiet)
    }

    fn faults(times: Times) -> Happened {
        let faults = Settled::from([("Kafka was killed".to_owned(), times)]);
        Happened { are_faults_asked: true, faults, ..Happened::default() }
    }

    #[test]
    fn a_run_that_came_to_rest_is_right() {
        for state in [OrderState::Paid, OrderState::Cancelled] {
            let report = report(faults(Times { untimed: 1, ..Times::default() }), vec![row(state)]);
            assert!(report.is_right(), "{report}");
            assert!(report.to_string().ends_with("\nEQUAL\n"), "{report}");
        }
    }

    /// Its close never came, and nothing else is wrong.
    #[test]
    fn an_order_that_is_still_open_is_not_right() {
        let report = report(Happened::default(), vec![row(OrderState::Created)]);
        assert!(!report.is_right());
        let text = report.to_string();
        for part in ["neither paid nor closed: 1\n", "STILL OPEN: order a\n", "not everything was quiet", "NOT EQUAL"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_run_that_did_nothing_is_not_right() {
        let nothing = report(Happened::default(), Vec::new());
        assert!(!nothing.is_right());
        assert!(nothing.to_string().contains("PROVES NOTHING: there was no order"), "{nothing}");
        let asked = Happened { are_faults_asked: true, ..Happened::default() };
        let calm = report(asked, vec![row(OrderState::Paid)]);
        assert!(!calm.is_right());
        assert!(calm.to_string().contains("PROVES NOTHING: there was no fault"), "{calm}");
        assert!(report(Happened::default(), vec![row(OrderState::Paid)]).is_right(), "none were asked for");
    }

    #[test]
    fn a_fault_that_never_settled_is_not_right() {
        assert!(!report(faults(Times { open: 1, ..Times::default() }), vec![row(OrderState::Paid)]).is_right());
    }
}
