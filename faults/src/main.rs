//! Real applications with relays on a real PostgreSQL and a real Kafka, killed, stopped and cut off by a seeded schedule; then
//! an audit of what arrived. `cargo xtask faults` builds and runs it; `docs/internals/faults.md` says what it covers.

#![expect(clippy::print_stdout, reason = "a command line program reports on its standard output")]

mod app;
mod audit;
mod backends;
mod calm;
mod consumer;
mod faults;
mod fleet;
mod journal;
mod left;
mod neighbours;
mod plans;
mod proxy;
mod recovery;
mod report;
mod run;
mod schedule;
mod truth;
mod wire;
mod world;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use xtask::FaultRun;
use xtask::stop::Stop;

use crate::plans::{Plan, TRAPS, Trap};
use crate::run::Outcome;
use crate::world::World;

/// Fewer messages than these say nothing.
const CONSUMED_MIN: usize = 100_000;
/// What a run of a minute or two comes to on a slow machine.
const SMOKE_CONSUMED_MIN: usize = 10_000;

/// Kills, stops and cuts off real applications, and audits what arrived
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    #[command(flatten)]
    run: FaultRun,
    /// Where reports and logs go
    #[arg(long, default_value = "target/faults")]
    results: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = match std::env::var(wire::CONFIG) {
        Ok(config) => be_application(&config).await,
        Err(_) => drive(&Arguments::parse()).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

async fn be_application(config: &str) -> Result<ExitCode> {
    // Unless asked for more: much of what a relay warns of is what was done to it.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::ERROR.into());
    let filter = filter.from_env().context("read RUST_LOG")?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    app::run(serde_json::from_str(config)?).await?;
    Ok(ExitCode::SUCCESS)
}

async fn drive(arguments: &Arguments) -> Result<ExitCode> {
    let plan = plan(arguments)?;
    if !arguments.run.plants {
        show(&plan);
    }
    if arguments.run.dry {
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Stop::on_signals()?;
    fs::create_dir_all(&arguments.results).context("make the folder of the results")?;
    let world = World::start(plan.is_skewed).await?;
    if arguments.run.plants {
        return spring_traps(&world, arguments, &stop).await;
    }
    let outcome = one(&world, &plan, "run", arguments, &stop).await?;
    print!("{}", report::table(&outcome, &plan));
    println!("\nreport: {}", arguments.results.join("run.json").display());
    Ok(ExitCode::from(u8::from(!report::failures(&outcome, &plan).is_empty())))
}

fn plan(arguments: &Arguments) -> Result<Plan> {
    let of = |name: &String, with_mistake| {
        let known: Vec<_> = TRAPS.iter().map(|trap| trap.mistake).collect();
        let trap = Trap::of(name).with_context(|| format!("no mistake is called {name}: {}", known.join(", ")))?;
        Ok(trap.plan(arguments.run.seed, with_mistake))
    };
    match (&arguments.run.plant, &arguments.run.control) {
        (Some(mistake), _) => of(mistake, true),
        (None, Some(mistake)) => of(mistake, false),
        (None, None) => {
            let run = &arguments.run;
            let consumed_min = if run.smoke { SMOKE_CONSUMED_MIN } else { CONSUMED_MIN };
            Ok(plans::long(run.seed, run.minutes, run.skew, consumed_min))
        }
    }
}

fn show(plan: &Plan) {
    println!("{} faults of seed {}", plan.phases.iter().map(Vec::len).sum::<usize>(), plan.seed);
    for (number, phase) in plan.phases.iter().enumerate() {
        println!("phase {}", number + 1);
        phase.iter().for_each(|step| println!("{step}"));
    }
}

async fn one(world: &World, plan: &Plan, name: &str, arguments: &Arguments, stop: &Stop) -> Result<Outcome> {
    let outcome = run::run(world, plan, name, &arguments.results, stop).await?;
    report::write(&outcome, plan, &arguments.results.join(name).with_extension("json"))?;
    Ok(outcome)
}

/// Each planted mistake has to be found, and its schedule has to pass without it.
async fn spring_traps(world: &World, arguments: &Arguments, stop: &Stop) -> Result<ExitCode> {
    ensure!(cfg!(feature = "_planted"), "mistakes need the feature _planted");
    let mut failed = 0;
    println!("{:<24} {:<28} without it", "mistake", "found as");
    for (number, trap) in TRAPS.iter().enumerate() {
        let (control, planted) = (trap.plan(arguments.run.seed, false), trap.plan(arguments.run.seed, true));
        let runs = async {
            let without = one(world, &control, &format!("control_{number}"), arguments, stop).await?;
            anyhow::Ok((without, one(world, &planted, &format!("plant_{number}"), arguments, stop).await?))
        };
        let (without, with) = match runs.await {
            Ok(outcomes) => outcomes,
            Err(error) if stop.requested() => return Err(error),
            // The others are to be seen all the same.
            Err(error) => {
                failed += 1;
                println!("{:<24} NOT RUN: {error:#}", trap.mistake);
                continue;
            }
        };
        let found: Vec<_> = trap.shows.iter().filter(|finding| with.audit.count(**finding) > 0).collect();
        let names: Vec<_> = found.iter().map(|of| format!("{} {}", with.audit.count(**of), of.name())).collect();
        let excess = report::failures(&without, &control);
        let (is_found, passes) = (!found.is_empty(), excess.is_empty());
        failed += usize::from(!is_found) + usize::from(!passes);
        let found = if is_found { names.join(", ") } else { "NOT FOUND".to_owned() };
        println!("{:<24} {found:<28} {}", trap.mistake, if passes { "passes" } else { "FAILS" });
        excess.iter().for_each(|failure| println!("    {failure}"));
    }
    println!("{failed} failed");
    Ok(ExitCode::from(u8::from(failed > 0)))
}
