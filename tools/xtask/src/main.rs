//! Every step of CI as one command: `cargo xtask test`. `cargo xtask --help` lists the smaller ones.

#![expect(clippy::print_stdout, reason = "a command line program reports on its standard output")]

mod alert_rules;
mod apt;
mod background;
mod bench;
mod checkers;
mod commands;
mod commit;
mod drill;
mod examples;
mod faults;
mod features;
mod libtest;
mod minimal_versions;
mod order_chain;
mod package;
mod postgres_majors;
mod release;
mod report;
mod rerun;
mod shared_servers;
mod steps;
#[cfg(test)]
mod target_names;
mod test_args;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::servers::ServerKind;
use xtask::stop::Stop;

use self::shared_servers::SharedServers;
use self::test_args::{Only, TestArgs};
use crate::bench::Bench;
use crate::release::Release;

/// Every step of CI as one command.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what is missing, start the servers, run every check, test and example, stop everything, print a summary
    Test(TestArgs),
    /// Start the shared servers, print the variables for `cargo test`, stop them at Ctrl-C
    Servers {
        /// postgres, mariadb, kafka, rocketmq, chromium; by default all
        #[arg(value_parser = server_kind)]
        servers: Vec<ServerKind>,
    },
    /// Measure speed and memory against their targets, with its own servers; takes an hour and three quarters
    Bench(Bench),
    /// Run real applications, kill, stop and disconnect them by a seeded schedule, and audit what arrived
    Faults(xtask::FaultArgs),
    /// Inject faults into a real relay, see each alert fire, heal it with the commands of its runbook, see it clear
    Drill(xtask::DrillArgs),
    /// Run the order chain on real servers: customers, faults by a seed, and a comparison of every place in the end
    OrderChain(order_chain::OrderChain),
    /// Check the formatting and the house rules: layers, sizes, dead files, stated versions
    Tidy,
    /// Build the documentation, with warnings denied, and run its examples
    Docs,
    /// Pack each crate as it would be published, and check what was packed
    Package,
    /// Build the libraries with the lowest version of each direct dependency, in a clone of the commit
    MinimalVersions,
    /// Compare the public API with that of the newest tag
    Semver,
    /// Run the steps of a release in CONTRIBUTING.md, up to those that cannot be undone
    Release(Release),
}

fn main() -> ExitCode {
    // Without the backtrace that `main() -> Result` would print: the message is for a person.
    task().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn task() -> Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let report = match Arguments::parse().command {
        Task::Servers { servers } => {
            let servers = if servers.is_empty() { ServerKind::ALL.to_vec() } else { servers };
            let shared = SharedServers::start(&servers)?;
            shared.wait_for_stop(&stop);
            return Ok(ExitCode::from(u8::from(!shared.failures().is_empty())));
        }
        Task::Test(args) if !args.postgres.is_empty() => postgres_majors::test(&args, &stop)?,
        Task::Test(args) => steps::test(&args, &stop)?,
        Task::Bench(bench) => return bench::bench(&bench, &stop),
        Task::Faults(faults) => return faults::faults(&faults, &stop),
        Task::Drill(args) => return drill::drill(&args, &stop),
        Task::OrderChain(args) => return order_chain::order_chain(&args, &stop),
        Task::Tidy => steps::test(&TestArgs::one(Only::Tidy), &stop)?,
        Task::Docs => steps::test(&TestArgs::one(Only::Docs), &stop)?,
        Task::Package => package::check(&stop)?,
        Task::MinimalVersions => minimal_versions::check(&stop)?,
        Task::Semver => release::semver(&stop)?,
        Task::Release(args) => release::release(&args, &stop)?,
    };
    print!("{report}");
    Ok(ExitCode::from(u8::from(stop.requested() || report.failed() > 0)))
}

fn server_kind(name: &str) -> Result<ServerKind, String> {
    ServerKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| "one of postgres, mariadb, kafka, rocketmq, chromium".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::commands::workspace;

    /// The commands in the workflows and documents, as arguments.
    fn commands() -> Vec<(String, Vec<String>)> {
        let mut files: Vec<_> =
            ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| workspace().join(name)).into();
        for folder in ["docs", "docs/internals", ".github", ".github/workflows"] {
            let entries = fs::read_dir(workspace().join(folder)).expect("a folder of texts");
            files.extend(entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()));
        }
        let mut found = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap_or_default().replace("${{ matrix.postgres }}", "16");
            for command in text.split("cargo xtask ").skip(1) {
                let end = command.find(['`', '\n', '#', '"', ')', ';', '|']).unwrap_or(command.len());
                let words = ["cargo xtask"].into_iter().chain(command[..end].split_whitespace());
                found.push((file.display().to_string(), words.map(str::to_owned).collect()));
            }
        }
        found
    }

    #[test]
    fn commands_named_in_docs_exist() {
        let commands = commands();
        assert!(commands.len() > 40, "{}", commands.len());
        for (file, words) in commands {
            let parsed = Arguments::try_parse_from(&words);
            // `--help` and commands with missing arguments are mentioned, too: only unknown ones are wrong.
            let wrong = parsed.err().filter(|error| error.use_stderr());
            assert!(wrong.is_none(), "{file}: {}: {}", words.join(" "), wrong.expect("an error"));
        }
    }
}
