//! Every step of CI as one command: `cargo xtask test`. `cargo xtask --help` lists the smaller ones.

#![expect(clippy::print_stdout, reason = "a command line program reports on its standard output")]

mod apt;
mod asked;
mod bench;
mod checkers;
mod commit;
mod faults;
mod features;
mod libtest;
mod majors;
mod minimal;
mod package;
mod release;
mod report;
mod shared;
mod steps;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::servers::Part;
use xtask::stop::Stop;

use crate::asked::{Asked, Only};
use crate::bench::Bench;
use crate::release::Release;
use crate::shared::Shared;

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
    Test(Asked),
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
    /// The libraries with the lowest version of each direct dependency, built in a clone of the commit
    MinimalVersions,
    /// The public API, compared with that of the newest tag
    Semver,
    /// What CONTRIBUTING.md lists for a release, up to what cannot be taken back
    Release(Release),
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
        Task::Test(asked) if !asked.postgres.is_empty() => majors::test(&asked, &stop)?,
        Task::Test(asked) => steps::test(&asked, &stop)?,
        Task::Bench(bench) => return bench::bench(&bench, &stop),
        Task::Faults(faults) => return faults::faults(&faults, &stop),
        Task::Tidy => steps::test(&Asked::one(Only::Tidy), &stop)?,
        Task::Docs => steps::test(&Asked::one(Only::Docs), &stop)?,
        Task::MinimalVersions => minimal::check(&stop)?,
        Task::Semver => release::semver(&stop)?,
        Task::Release(asked) => release::release(&asked, &stop)?,
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tools::workspace;

    /// The commands that the workflows run and the documents name, as arguments.
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
    fn commands_that_texts_name_exist() {
        let commands = commands();
        assert!(commands.len() > 40, "{}", commands.len());
        for (file, words) in commands {
            let parsed = Arguments::try_parse_from(&words);
            // `--help` and a command without what it needs are named, too: only what is unknown is wrong.
            let wrong = parsed.err().filter(|error| error.use_stderr());
            assert!(wrong.is_none(), "{file}: {}: {}", words.join(" "), wrong.expect("an error"));
        }
    }
}
