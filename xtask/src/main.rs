//! Every step of CI as one command: `cargo xtask test`. `cargo xtask --help` lists the smaller ones.

#![expect(clippy::print_stdout, reason = "a command line program reports on its standard output")]

mod apt;
mod bench;
mod faults;
mod features;
mod libtest;
mod package;
mod report;
mod shared;
mod steps;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::servers::Part;
use xtask::stop::Stop;

use crate::bench::Bench;
use crate::shared::Shared;
use crate::steps::Only;

/// Every step of CI as one command.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what is missing, start the servers, run every check, test and example, stop everything, sum up
    Test {
        /// Run only this, and start only the servers it names; may be given several times
        #[arg(long, value_parser = Only::parse)]
        only: Vec<Only>,
        /// Leave the servers up afterwards, until Ctrl-C
        #[arg(long)]
        keep: bool,
        /// Run only the integration tests whose name contains one of these
        filter: Vec<String>,
    },
    /// Start the shared servers, print the variables for `cargo test`, stop them at Ctrl-C
    Servers {
        /// postgres, mariadb, kafka, rocketmq; by default all
        #[arg(value_parser = part)]
        parts: Vec<Part>,
    },
    /// Speed and memory against their floors, with servers of its own; takes an hour and three quarters
    Bench(Bench),
    /// Real applications, killed, stopped and cut off by a seeded schedule, and an audit of what arrived
    Faults(xtask::FaultRun),
    /// The formatting and the house rules: floors, sizes, dead files, stated versions
    Tidy,
    /// The documentation, warnings denied, and its examples
    Docs,
}

fn main() -> ExitCode {
    // Without the backtrace that `main() -> Result` would print: the message is meant for its reader.
    task().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn task() -> Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let report = match Arguments::parse().command {
        Task::Servers { parts } => {
            let parts = if parts.is_empty() { Part::ALL.to_vec() } else { parts };
            let shared = Shared::start(&parts)?;
            shared.hold(&stop);
            return Ok(ExitCode::from(u8::from(!shared.failures().is_empty())));
        }
        Task::Test { only, keep, filter } => steps::test(&only, keep, &filter, &stop)?,
        Task::Bench(bench) => return bench::bench(&bench, &stop),
        Task::Faults(faults) => return faults::faults(&faults, &stop),
        Task::Tidy => steps::test(&[Only::Tidy], false, &[], &stop)?,
        Task::Docs => steps::test(&[Only::Docs], false, &[], &stop)?,
    };
    print!("{report}");
    Ok(ExitCode::from(u8::from(stop.requested() || report.failed() > 0)))
}

fn part(name: &str) -> Result<Part, String> {
    Part::ALL
        .into_iter()
        .find(|part| part.name() == name)
        .ok_or_else(|| "one of postgres, mariadb, kafka, rocketmq".to_owned())
}
