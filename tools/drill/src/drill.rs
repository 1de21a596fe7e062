//! The drill: alert by alert.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xtask::DrillArgs;
use xtask::servers::http_request::request;
use xtask::servers::install;
use xtask::stop::Stop;

use crate::faults::{self, Fault};
use crate::shop::Bug;
use crate::wait::until;
use crate::world::World;
use crate::{alerts, blocks, board, rules, start};

/// How long an alert may take to fire, and to clear: the longest window of the rules that has to pass, shortened, and some more.
const FIRES_WITHIN: Duration = Duration::from_secs(240);
const CLEARS_WITHIN: Duration = Duration::from_secs(420);
/// How long the world may take to be healthy between two drills: as long as a relay pauses after a count that took 5 s, and some more.
const HEALTHY_WITHIN: Duration = Duration::from_secs(300);
/// How long everything may take that happens rarely.
const EVENTS_WITHIN: Duration = Duration::from_secs(120);

/// What became of one alert.
#[derive(Debug)]
struct Outcome {
    fault: Fault,
    result: Result<(Duration, Duration)>,
}

/// Runs the drill; returns whether all of it passed.
pub(crate) fn run(arguments: &DrillArgs, stop: &Stop) -> Result<bool> {
    let chosen = chosen(arguments)?;
    if arguments.list {
        chosen.iter().for_each(|fault| println!("{:<26} {}", fault.alert, fault.what));
        return Ok(true);
    }
    println!(
        "starting PostgreSQL, Kafka, the application and Prometheus; a minute of the rules lasts {} s",
        60.0 / rules::SPEED
    );
    let world = start::start(stop)?;
    let since = alerts::now(&world.prometheus)?;
    until(
        stop,
        HEALTHY_WITHIN,
        "Prometheus evaluates every rule",
        || Ok(alerts::loaded(&world.prometheus)?.is_some()),
    )?;
    until(stop, HEALTHY_WITHIN, "no alert fires", || world.is_healthy())?;
    let mut outcomes = Vec::new();
    for fault in chosen {
        let result = drill(&world, fault);
        if let Err(error) = &result {
            ensure!(!stop.requested(), "stopped by a signal");
            println!("    FAILED: {error:#}\n    the application's log ends with:\n{}", world.shop().log_end());
            world.restore()?;
        }
        outcomes.push(Outcome { fault, result });
    }
    let mut failures = Vec::new();
    if arguments.only.is_empty() {
        failures = check_board(&world, since)?;
    }
    failures.extend(check_metrics(&world).err().map(|error| format!("{error:#}")));
    print_report(&outcomes, &failures, arguments.only.is_empty());
    Ok(failures.is_empty() && outcomes.iter().all(|outcome| outcome.result.is_ok()))
}

fn chosen(arguments: &DrillArgs) -> Result<Vec<Fault>> {
    for alert in &arguments.only {
        let known: Vec<_> = faults::ALL.iter().map(|fault| fault.alert).collect();
        ensure!(known.contains(&alert.as_str()), "no fault sets off {alert}: {}", known.join(", "));
    }
    let is_chosen =
        |fault: &&Fault| arguments.only.is_empty() || arguments.only.iter().any(|alert| alert == fault.alert);
    Ok(faults::ALL.iter().filter(is_chosen).copied().collect())
}

/// Injects the fault, waits for the alert, runs the runbook's commands, waits until it has cleared. Returns how long the alert took
/// to fire and to clear.
fn drill(world: &World, fault: Fault) -> Result<(Duration, Duration)> {
    let Fault { alert, what, inject } = fault;
    println!("\n{alert}: {what}");
    let fires = || Ok(alerts::firing_names(&world.prometheus)?.iter().any(|name| name == alert));
    until(&world.stop, HEALTHY_WITHIN, "the alert is silent before the fault", || Ok(!fires()?))?;
    let held = inject(world).context("inject the fault")?;
    let fired = until(&world.stop, FIRES_WITHIN, "the alert fires", fires)?;
    println!("    fires after {:.0} s", fired.as_secs_f64());
    for block in blocks::of_alert(alert)? {
        let printed = world.environment.run(&block).with_context(|| format!("run the runbook's {}", block.section))?;
        println!("    {}:", block.section);
        block.text.lines().chain(printed.lines()).for_each(|line| println!("      {line}"));
        ensure!(block.section != "Diagnosis" || !printed.trim().is_empty(), "the diagnosis shows nothing");
    }
    let cleared = until(&world.stop, CLEARS_WITHIN, "the alert clears", || Ok(!fires()?))?;
    println!("    clears after {:.0} s", cleared.as_secs_f64());
    drop(held);
    let healthy = until(&world.stop, HEALTHY_WITHIN, "everything works again", || world.is_healthy());
    healthy.with_context(|| {
        format!("these fire: {}", alerts::firing_names(&world.prometheus).unwrap_or_default().join(", "))
    })?;
    Ok((fired, cleared))
}

/// Has everything happen that happens rarely, and asks each query of the board for the whole time of the drill.
fn check_board(world: &World, since: f64) -> Result<Vec<String>> {
    println!("\nthe board: every query returns series");
    world.shop().deploy(|config| config.bug = Some(Bug::EveryEvent))?;
    let mut missing = Vec::new();
    let complete = until(&world.stop, EVENTS_WITHIN, "every query returns series", || {
        missing = board::without_series(world, since)?;
        Ok(missing.is_empty())
    });
    // What is missing says more than that something is.
    if complete.is_err() {
        ensure!(!world.stop.requested(), "stopped by a signal");
        println!("the application's log ends with:\n{}", world.shop().log_end());
    }
    Ok(missing.into_iter().map(|query| format!("no series: {query}")).collect())
}

/// Has promtool check what the relay exports.
fn check_metrics(world: &World) -> Result<()> {
    println!("\npromtool check metrics");
    let scraped = request(&world.shop().address(), "GET", "/metrics", "")?;
    let mut promtool = Command::new(install::promtool()?);
    let child =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.context("run promtool")?;
    child.stdin.take().context("piped above")?.write_all(scraped.as_bytes()).context("pass on the metrics")?;
    let output = child.wait_with_output()?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "promtool check metrics:\n{printed}");
    println!("    {} lines are fine", scraped.lines().count());
    Ok(())
}

fn print_report(outcomes: &[Outcome], failures: &[String], is_whole: bool) {
    println!("\n{:<26} {:>9} {:>10}  fault", "alert", "fires", "clears");
    for Outcome { fault, result } in outcomes {
        let (fired, cleared) = match result {
            Ok((fired, cleared)) => {
                (format!("{:.0} s", fired.as_secs_f64()), format!("{:.0} s", cleared.as_secs_f64()))
            }
            Err(_) => ("FAILED".to_owned(), String::new()),
        };
        println!("{:<26} {fired:>9} {cleared:>10}  {}", fault.alert, fault.what);
    }
    if is_whole {
        faults::NOT_DRILLED.iter().for_each(|(alert, reason)| println!("{alert:<26} not drilled: {reason}"));
        board::NOT_PRODUCED.iter().for_each(|(metric, reason)| println!("{metric}: not produced: {reason}"));
    }
    failures.iter().for_each(|failure| println!("FAILED: {failure}"));
}
