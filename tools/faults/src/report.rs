//! The report of a run: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use diesel_outbox::internals::metrics::{CONSUMED, LANE_LOST, LEFT_TO_SWEEPER, RETRIED};
use serde_json::{Value, json};

use crate::app::{ADMIN_ACTIONS, POLICIES, TRANSACTIONS};
use crate::audit::{Audit, Finding};
use crate::fault_log::FaultLog;
use crate::kinds::{RELAY_STEPS, STEPS};
use crate::plans::Plan;
use crate::run::{PhaseResult, RunResult};
use crate::schedule::{Kind, PAUSES_MIN, SERVER_KILLS_MIN, Step};
use crate::wire::{AGED, FENCED, ORDERED, PLAIN};

/// What the faults of a long run always cause: a full queue or an outage of the broker, lanes whose owner stalled, and
/// messages that are sent again.
const COUNTED_BY_EVERY_LONG_RUN: [&str; 3] = [LEFT_TO_SWEEPER, LANE_LOST, RETRIED];

/// A run with this many kills of each step fails if fewer than a quarter of them came to it: the lanes that an application is to take may
/// have been taken by others.
const KILLS_OF_STEP_MIN: usize = 10;

/// Why a run fails; empty if it passes.
pub(crate) fn failures(outcome: &RunResult, plan: &Plan) -> Vec<String> {
    let audit = &outcome.audit;
    let mut failures = Vec::new();
    for (finding, (count, examples)) in &audit.findings {
        failures.push(format!("{count} {}, for example {}", finding.name(), examples.join("\n    ")));
    }
    if audit.consumed < plan.consumed_min {
        failures.push(format!(
            "only {} messages were consumed, but at least {} are needed",
            audit.consumed, plan.consumed_min
        ));
    }
    if plan.is_whole {
        failures.extend(not_exercised(outcome, plan));
    }
    if plan.is_long() {
        failures.extend(not_reached(outcome, plan));
    }
    if plan.is_of_kills {
        failures.extend(not_killed(outcome, plan));
    }
    failures
}

/// The kills that did not come, and the steps at which none of them was.
fn not_killed(outcome: &RunResult, plan: &Plan) -> Vec<String> {
    let planned: usize = plan.phases.iter().map(Vec::len).sum();
    // One that was told to end may have done so before it came to a hand-over.
    let (killed, _) = FaultLog::shares(&outcome.windows, &[Kind::CrashApplication, Kind::Restart], 0);
    let mut not_killed = Vec::new();
    if killed < planned {
        not_killed.push(format!("only {killed} of {planned} applications were killed"));
    }
    let died = died_at(outcome, plan);
    let at_steps: usize = died.iter().map(|(_, died)| died).sum();
    if at_steps * 2 < planned {
        not_killed.push(format!("only {at_steps} of {planned} applications died at their steps"));
    }
    // Of a few kills, the one at a rare step may have come too late.
    let is_often_enough = planned >= KILLS_OF_STEP_MIN * RELAY_STEPS.len();
    for (name, died) in died.into_iter().filter(|_| is_often_enough) {
        let is_here = |step: &&Step| step.fault.step().is_some_and(|(_, of)| of == name);
        let planned = plan.phases.iter().flatten().filter(is_here).count();
        if died * 4 < planned {
            not_killed.push(format!("only {died} of {planned} applications died at the step: {name}"));
        }
    }
    not_killed
}

/// How many processes died at each step of the plan's kinds of kills.
fn died_at(outcome: &RunResult, plan: &Plan) -> Vec<(&'static str, usize)> {
    let of_relays = RELAY_STEPS.iter().filter(|_| plan.is_of_kills);
    let steps = of_relays.chain(STEPS.iter().filter(|_| plan.load.consumers));
    let died = |name: &str| outcome.windows.iter().filter(|window| window.name == name).count();
    steps.map(|(_, name)| (*name, died(name))).collect()
}

/// What the load should have done but did not: a topic without commits has nothing to lose.
fn not_exercised(outcome: &RunResult, plan: &Plan) -> Vec<String> {
    let mut not_exercised = Vec::new();
    let committed_min = plan.consumed_min / 20;
    // One message in forty goes to the aged topic.
    let mins = [committed_min, committed_min, committed_min, committed_min / 10];
    let names = [(PLAIN, "plain"), (ORDERED, "ordered"), (FENCED, "fenced"), (AGED, "aged")];
    for ((topic, name), committed_min) in names.into_iter().zip(mins) {
        let committed = outcome.audit.committed_to.get(&topic).copied().unwrap_or(0);
        if committed < committed_min {
            not_exercised.push(format!(
                "only {committed} messages of the {name} topic, but at least {committed_min} are needed"
            ));
        }
    }
    let is_done = |name: &&str| outcome.transactions.get(*name).is_some_and(|count| *count > 0);
    for name in TRANSACTIONS.iter().filter(|name| !is_done(name)) {
        not_exercised.push(format!("no transaction of the kind {name} ended"));
    }
    // In a minute there may be no dead letter to redrive yet.
    for name in ADMIN_ACTIONS.iter().chain(&[POLICIES]).filter(|name| plan.is_long() && !is_done(name)) {
        not_exercised.push(format!("none of these: {name}"));
    }
    for (what, count) in
        [("delayed message was judged", outcome.audit.in_time), ("message is kept", outcome.audit.kept)]
    {
        // While a clock is wrong, most delayed messages are not judged.
        if count == 0 && !plan.is_skewed {
            not_exercised.push(format!("no {what}"));
        }
    }
    not_exercised
}

/// What the faults should have done but did not.
fn not_reached(outcome: &RunResult, plan: &Plan) -> Vec<String> {
    let mut not_reached = Vec::new();
    let is_counted = |metric: &&str| outcome.metrics.get(*metric).is_some_and(|count| *count > 0);
    for metric in COUNTED_BY_EVERY_LONG_RUN.iter().filter(|metric| !is_counted(metric)) {
        not_reached.push(format!(
            "{metric} is 0: the faults that it counts did not reach the library, so the run proves nothing about them"
        ));
    }
    for (step, _) in died_at(outcome, plan).iter().filter(|(_, died)| *died == 0) {
        not_reached.push(format!("no consumer died at the step: {step}"));
    }
    for what in ["duplicate", "parked", "replayed"] {
        let counted = outcome.metrics.iter().filter(|(name, _)| name.starts_with(CONSUMED) && name.ends_with(what));
        if plan.load.consumers && counted.map(|(_, count)| count).sum::<u64>() == 0 {
            not_reached.push(format!("{CONSUMED} with the outcome {what} is 0"));
        }
    }
    let shares: [(&[Kind], u64, usize); 2] =
        [(&Kind::OF_SERVERS, 0, SERVER_KILLS_MIN), (&Kind::STOPS, plan.times.lease_ms, PAUSES_MIN)];
    for (kinds, lasting_ms, percent_min) in shares {
        let (happened, all) = FaultLog::shares(&outcome.windows, kinds, lasting_ms);
        if happened * 100 < all * percent_min {
            not_reached.push(format!("{kinds:?} were {happened} of {all} faults, of at least {percent_min} %"));
        }
    }
    not_reached
}

fn by_kind(outcome: &RunResult) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for window in &outcome.windows {
        *counts.entry(window.name).or_default() += 1;
    }
    counts
}

/// The median and the longest.
fn extremes(durations: impl Iterator<Item = Duration>) -> (Duration, Duration) {
    let mut sorted: Vec<Duration> = durations.collect();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median, sorted.last().copied().unwrap_or_default())
}

/// The longest time of a message in a steady state, by whether a snapshot was held.
fn in_steady_state(audit: &Audit, is_held: bool) -> Duration {
    Duration::from_millis(audit.steady_state.get(&is_held).map_or(0, |(_, longest_ms)| *longest_ms))
}

fn recovery(outcome: &RunResult) -> (Duration, Duration) {
    extremes(outcome.phases.iter().filter_map(|phase| phase.recovery))
}

fn phase(phase: &PhaseResult) -> Value {
    json!({
        "rows": phase.rows,
        "running_seconds": phase.running.map(|took| took.as_secs_f64()),
        "recovery_seconds": phase.recovery.map(|took| took.as_secs_f64()),
        "processed_seconds": phase.processed.map(|took| took.as_secs_f64()),
        "committed": phase.committed,
        "committed_per_second": phase.committed_per_second(),
        "seconds": phase.took.as_secs_f64(),
    })
}

/// What the audit counted, and found.
fn audit_rows(outcome: &RunResult) -> Vec<(String, String)> {
    let audit = &outcome.audit;
    let once = audit.committed_to.get(&FENCED).copied().unwrap_or(0);
    let mut rows = vec![
        ("committed".to_owned(), audit.committed.to_string()),
        ("consumed".to_owned(), audit.consumed.to_string()),
        ("committed to the exactly-once topic".to_owned(), once.to_string()),
        ("further copies on it".to_owned(), audit.copies_on_exactly_once.to_string()),
        ("dead letters".to_owned(), audit.dead.to_string()),
        ("of these not redriven, and not judged".to_owned(), audit.unjudged.to_string()),
        ("delayed, and not early".to_owned(), audit.in_time.to_string()),
        ("in the history".to_owned(), audit.kept.to_string()),
        ("effects of consumers".to_owned(), audit.processed.to_string()),
        ("connections of a relay, most".to_owned(), outcome.connections.to_string()),
    ];
    let all = [
        Finding::Lost,
        Finding::Phantom,
        Finding::Changed,
        Finding::Duplicate,
        Finding::Inverted,
        Finding::Early,
        Finding::WronglyDead,
        Finding::WronglyKept,
        Finding::Late,
        Finding::DeadRowsRead,
        Finding::TooManyConnections,
        Finding::NotProcessed,
        Finding::ProcessedTwice,
        Finding::ProcessedPhantom,
        Finding::ProcessedInverted,
        Finding::Stuck,
    ];
    rows.extend(all.map(|finding| (finding.name().to_owned(), audit.count(finding).to_string())));
    rows
}

/// The final table.
pub(crate) fn table(outcome: &RunResult, plan: &Plan) -> String {
    let mut text = String::new();
    let mut section = |title: &str, rows: Vec<(String, String)>| {
        let _ = writeln!(text, "\n{title}");
        for (name, figure) in rows {
            let _ = writeln!(text, "  {name:<40} {figure:>10}");
        }
    };
    let audit = &outcome.audit;
    let counted = |counts: &BTreeMap<&'static str, usize>| {
        counts.iter().map(|(name, count)| ((*name).to_owned(), count.to_string())).collect::<Vec<_>>()
    };
    section("faults", counted(&by_kind(outcome)));
    let died = died_at(outcome, plan).into_iter().map(|(name, died)| (name.to_owned(), died.to_string()));
    section("processes that died at each step", died.collect());
    let lines = |counts: &BTreeMap<String, u64>| {
        counts.iter().map(|(name, count)| (name.clone(), count.to_string())).collect::<Vec<_>>()
    };
    section("transactions", lines(&outcome.transactions));
    section("what the library counted", lines(&outcome.metrics));
    section("copies beyond the first, by the fault that explains them", counted(&audit.duplicates));
    section("audit", audit_rows(outcome));
    let (median, longest) = recovery(outcome);
    let seconds = |duration: Duration| format!("{:.1} s", duration.as_secs_f64());
    let (_, running) = extremes(outcome.phases.iter().filter_map(|phase| phase.running));
    let time = [
        ("from a fault to its last copy, longest", Duration::from_millis(audit.lag_ms)),
        ("until all run again, longest", running),
        ("recovery, median", median),
        ("recovery, longest", longest),
        ("from row to broker in a steady state, longest", in_steady_state(audit, false)),
        ("the same with a snapshot held", in_steady_state(audit, true)),
        ("total", outcome.took),
    ];
    section("time", time.map(|(name, duration)| (name.to_owned(), seconds(duration))).to_vec());
    for failure in failures(outcome, plan) {
        let _ = writeln!(text, "\nFAILED: {failure}");
    }
    text
}

/// Writes the figures of a run, with its schedule, to a file.
pub(crate) fn write(outcome: &RunResult, plan: &Plan, file: &Path) -> Result<()> {
    let audit = &outcome.audit;
    let (median, longest) = recovery(outcome);
    let of_steady_state = |is_held| audit.steady_state.get(&is_held).copied().unwrap_or_default();
    let (in_steady_state, held) = (of_steady_state(false), of_steady_state(true));
    let findings: BTreeMap<_, _> = audit.findings.iter().map(|(of, found)| (of.name(), found)).collect();
    let report = json!({
        "seed": plan.seed,
        "bug": plan.bug,
        "schedule": plan.phases,
        "faults": by_kind(outcome),
        "died_at": died_at(outcome, plan).into_iter().collect::<BTreeMap<_, _>>(),
        "windows": outcome.windows,
        "transactions": outcome.transactions,
        "metrics": outcome.metrics,
        "phases": outcome.phases.iter().map(phase).collect::<Vec<_>>(),
        "committed": audit.committed,
        "consumed": audit.consumed,
        "dead": audit.dead,
        "unjudged": audit.unjudged,
        "in_time": audit.in_time,
        "kept": audit.kept,
        "processed": audit.processed,
        "relay_connections_max": outcome.connections,
        "steady_state": { "judged": in_steady_state.0, "longest_ms": in_steady_state.1, "with_snapshot": { "judged": held.0, "longest_ms": held.1 } },
        "exactly_once": { "committed": audit.committed_to.get(&FENCED), "further_copies": audit.copies_on_exactly_once },
        "duplicates": audit.duplicates,
        "lag_seconds": audit.lag_ms as f64 / 1e3,
        "findings": findings,
        "recovery_seconds": { "median": median.as_secs_f64(), "longest": longest.as_secs_f64() },
        "seconds": outcome.took.as_secs_f64(),
        "failures": failures(outcome, plan),
    });
    fs::write(file, serde_json::to_string_pretty(&report)?).with_context(|| format!("write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_log::FaultWindow;
    use crate::plans;

    /// A run in which an application died at each of these steps.
    fn outcome(names: impl Iterator<Item = &'static str>) -> RunResult {
        let window = |name| {
            let mut window = FaultWindow::of(Kind::CrashApplication, Some(0), [0, 1]);
            window.name = name;
            window
        };
        RunResult {
            audit: Audit::default(),
            windows: names.map(window).collect(),
            transactions: BTreeMap::new(),
            metrics: BTreeMap::new(),
            phases: Vec::new(),
            connections: 0,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_run_of_kills_has_all_of_them_and_some_at_each_step() {
        let kills = KILLS_OF_STEP_MIN * RELAY_STEPS.len();
        let plan = plans::kills(1, kills, 0);
        let whole = || RELAY_STEPS.iter().map(|(_, name)| *name).cycle().take(kills);
        assert_eq!(not_killed(&outcome(whole()), &plan), Vec::<String>::new());
        assert!(died_at(&outcome(whole()), &plan).iter().all(|(_, died)| *died == KILLS_OF_STEP_MIN));
        let one_less = outcome(whole().skip(1));
        assert_eq!(not_killed(&one_less, &plan), [format!("only {} of {kills} applications were killed", kills - 1)]);
        let (_, missing) = RELAY_STEPS[3];
        let plain = |name: &'static str| if name == missing { Kind::KillApplication.name() } else { name };
        let without = outcome(whole().map(plain));
        let fewer = format!("only 0 of {KILLS_OF_STEP_MIN} applications died at the step: {missing}");
        assert_eq!(not_killed(&without, &plan), [fewer]);
    }

    #[test]
    fn few_kills_need_not_come_to_each_step() {
        let (kills, (_, first)) = (3, RELAY_STEPS[0]);
        let plan = plans::kills(1, kills, 0);
        assert_eq!(not_killed(&outcome([first].into_iter().cycle().take(kills)), &plan), Vec::<String>::new());
        let elsewhere = [first, Kind::KillApplication.name(), Kind::KillApplication.name()];
        let of_three = "only 1 of 3 applications died at their steps".to_owned();
        assert_eq!(not_killed(&outcome(elsewhere.into_iter()), &plan), [of_three]);
    }
}
