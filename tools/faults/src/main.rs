//! Real applications with relays on a real PostgreSQL and a real Kafka, killed, stopped and cut off by a seeded
//! schedule. An audit of what arrived follows. `cargo xtask faults` builds and runs it; `docs/internals/faults.md` says
//! what it covers.

#![expect(clippy::print_stdout, reason = "a command line program reports on its standard output")]

mod app;
mod audit;
mod backlog;
mod connection_monitor;
mod consumer;
mod environment;
mod fault_log;
mod fleet;
mod group;
mod injector;
mod kills;
mod kinds;
mod ledger;
mod other_sessions;
mod plans;
mod proxy;
mod recovery;
mod releaser;
mod report;
mod run;
mod schedule;
mod stalls;
mod steady_state;
mod truth;
mod verify;
mod wire;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use xtask::FaultArgs;
use xtask::stop::Stop;

use self::environment::Environment;
use crate::plans::{BUG_CASES, BugCase, Plan};
use crate::run::RunResult;
use crate::wire::{Config, Times};

/// A run with fewer messages proves nothing.
const CONSUMED_MIN: usize = 100_000;
/// What a run of a minute or two consumes on a slow machine.
const SMOKE_CONSUMED_MIN: usize = 10_000;
/// The same for each kill of a run of kills, up to the number of a long run.
const KILL_CONSUMED_MIN: usize = 100;

/// Kills, stops and cuts off real applications, and audits what arrived
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    #[command(flatten)]
    run: FaultArgs,
    /// Where reports and logs go
    #[arg(long, default_value = "target/faults")]
    results: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match std::env::var(wire::CONFIG) {
        Ok(config) => run_application(&config).await,
        Err(_) => drive(&Arguments::parse()).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run_application(config: &str) -> Result<ExitCode> {
    // Unless asked for more: a relay warns mostly of the faults themselves.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::ERROR.into());
    let filter = filter.from_env().context("read RUST_LOG")?;
    let config: Config = serde_json::from_str(config)?;
    let process = config.process;
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(move || ProcessLog(process)).init();
    app::run(config).await?;
    Ok(ExitCode::SUCCESS)
}

/// Standard error, with the number of the process before each event: all processes have one log.
struct ProcessLog(u32);

impl Write for ProcessLog {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let prefix = format!("process {}: ", self.0).into_bytes();
        io::stderr().write_all(&[&prefix, event].concat())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

async fn drive(arguments: &Arguments) -> Result<ExitCode> {
    let plan = plan(arguments)?;
    if !arguments.run.inject_all_bugs {
        show(&plan);
    }
    if arguments.run.dry {
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Stop::on_signals()?;
    fs::create_dir_all(&arguments.results).context("create the results folder")?;
    let environment = Environment::start(plan.is_skewed).await?;
    if arguments.run.inject_all_bugs {
        return check_injected_bugs(&environment, arguments, &stop).await;
    }
    let outcome = one(&environment, &plan, "run", arguments, &stop).await?;
    print!("{}", report::table(&outcome, &plan));
    println!("\nreport: {}", arguments.results.join("run.json").display());
    Ok(ExitCode::from(u8::from(!report::failures(&outcome, &plan).is_empty())))
}

fn plan(arguments: &Arguments) -> Result<Plan> {
    let of = |name: &String, with_bug| {
        let known: Vec<_> = BUG_CASES.iter().map(|bug_case| bug_case.bug).collect();
        let bug_case = BugCase::of(name).with_context(|| format!("no bug is called {name}: {}", known.join(", ")))?;
        Ok(bug_case.plan(arguments.run.seed, with_bug))
    };
    match (&arguments.run.inject_bug, &arguments.run.control) {
        (Some(bug), _) => of(bug, true),
        (None, Some(bug)) => of(bug, false),
        (None, None) => {
            let run = &arguments.run;
            if let Some(kills) = run.kills {
                let kills = kills.get();
                let consumed_min = CONSUMED_MIN.min(kills.saturating_mul(KILL_CONSUMED_MIN));
                return Ok(plans::kills(run.seed, kills, consumed_min));
            }
            let (times, consumed_min) = match run.smoke {
                true => (Times::on_a_busy_machine(), SMOKE_CONSUMED_MIN),
                false => (Times::default(), CONSUMED_MIN),
            };
            Ok(plans::long(run.seed, run.minutes, run.skew, times, consumed_min))
        }
    }
}

fn show(plan: &Plan) {
    println!("{} faults with seed {}", plan.phases.iter().map(Vec::len).sum::<usize>(), plan.seed);
    for (number, phase) in plan.phases.iter().enumerate() {
        println!("phase {}", number + 1);
        phase.iter().for_each(|step| println!("{step}"));
    }
}

async fn one(
    environment: &Environment,
    plan: &Plan,
    name: &str,
    arguments: &Arguments,
    stop: &Stop,
) -> Result<RunResult> {
    let outcome = run::run(environment, plan, name, &arguments.results, stop).await?;
    report::write(&outcome, plan, &arguments.results.join(name).with_extension("json"))?;
    Ok(outcome)
}

/// Each injected bug must be found, and its schedule must pass without it.
async fn check_injected_bugs(environment: &Environment, arguments: &Arguments, stop: &Stop) -> Result<ExitCode> {
    ensure!(cfg!(feature = "_injected_bugs"), "injected bugs need the feature _injected_bugs");
    let mut failed = 0;
    println!("{:<24} {:<28} without it", "bug", "found as");
    for (number, bug_case) in BUG_CASES.iter().enumerate() {
        let (control, injected) = (bug_case.plan(arguments.run.seed, false), bug_case.plan(arguments.run.seed, true));
        let runs = async {
            let without = one(environment, &control, &format!("control_{number}"), arguments, stop).await?;
            anyhow::Ok((without, one(environment, &injected, &format!("bug_{number}"), arguments, stop).await?))
        };
        let (without, with) = match runs.await {
            Ok(outcomes) => outcomes,
            Err(error) if stop.requested() => return Err(error),
            // The other bugs still run.
            Err(error) => {
                failed += 1;
                println!("{:<24} NOT RUN: {error:#}", bug_case.bug);
                continue;
            }
        };
        let found: Vec<_> = bug_case.found_as.iter().filter(|finding| with.audit.count(**finding) > 0).collect();
        let names: Vec<_> = found.iter().map(|of| format!("{} {}", with.audit.count(**of), of.name())).collect();
        let excess = report::failures(&without, &control);
        let (is_found, passes) = (!found.is_empty(), excess.is_empty());
        failed += usize::from(!is_found) + usize::from(!passes);
        let found = if is_found { names.join(", ") } else { "NOT FOUND".to_owned() };
        println!("{:<24} {found:<28} {}", bug_case.bug, if passes { "passes" } else { "FAILS" });
        excess.iter().for_each(|failure| println!("    {failure}"));
    }
    println!("{failed} failed");
    Ok(ExitCode::from(u8::from(failed > 0)))
}
