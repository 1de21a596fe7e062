//! Steps that wait for nothing. They run on the processors that the tests with servers leave idle.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use xtask::stop::Stop;

use crate::commands::{Captured, cargo, run_in_background};
use crate::libtest::Output;
use crate::report::TestRun;
use crate::steps::Steps;
use crate::test_args::{Only, TestArgs};
use crate::{features, package};

const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--features", "_test", "--", "-D", "warnings"];

/// A step that needs no server.
#[derive(Debug)]
pub(crate) struct Job {
    suite: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Passes where its command succeeds.
    Check(Command),
    /// The tests of these targets.
    Tests(&'static [&'static str]),
}

/// A job that has run.
struct Ended {
    suite: String,
    is_check: bool,
    captured: Captured,
    took: Duration,
}

impl Job {
    fn check(suite: &str, command: Command) -> Self {
        Self { suite: suite.to_owned(), kind: Kind::Check(command) }
    }

    fn tests(suite: &str, targets: &'static [&'static str]) -> Self {
        Self { suite: suite.to_owned(), kind: Kind::Tests(targets) }
    }
}

impl Steps<'_> {
    /// The jobs that were requested, those first whose failure is the most likely.
    pub(crate) fn jobs(&mut self, args: &TestArgs) -> Vec<Job> {
        let mut jobs = Vec::new();
        if args.wants(Only::Lint) && self.has_component("clippy", "clippy", "clippy") {
            jobs.push(Job::check("clippy", cargo(CLIPPY)));
        }
        if args.wants(Only::Features) && self.has_component("features", "clippy", "clippy") {
            for choice in features::CHOICES {
                let suite = format!("features: {}", if choice.is_empty() { "none" } else { choice });
                jobs.push(Job::check(&suite, cargo(&features::check(choice))));
            }
            for choice in features::CLI_CHOICES {
                let suite = format!("features of the command line: {}", if choice.is_empty() { "none" } else { choice });
                jobs.push(Job::check(&suite, cargo(&features::check_cli(choice))));
            }
            jobs.push(Job::check("features: injected bugs", cargo(features::INJECTED_BUGS)));
        }
        if args.wants(Only::Package) {
            jobs.push(match package::has_registry() {
                true => Job::check("package", package::dry_run()),
                // No failure, in CI neither: nothing of ours is wrong. The packages are created all the same.
                false => Job::check("package: without the registry, unbuilt", package::offline()),
            });
        }
        if args.wants(Only::Docs) {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
            doc.env("RUSTDOCFLAGS", "-D warnings");
            jobs.push(Job::check("docs", doc));
        }
        if args.wants(Only::Model) {
            jobs.push(Job::tests("model", &["--test", "model"]));
        }
        jobs
    }

    /// Runs the tests with servers, which mostly wait, and the jobs beside them.
    pub(crate) fn run_beside(&mut self, jobs: Vec<Job>, tests: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let jobs: Vec<_> = jobs.into_iter().map(|job| self.command(job)).collect();
        let (stop, (started, has_started)) = (self.stop, mpsc::channel());
        self.started = Some(started);
        let ended = thread::scope(|scope| {
            let ended = scope.spawn(move || {
                // Cargo builds one thing at a time in a target folder: the tests come first. An error means that they have
                // ended, or were not even built.
                let _ = has_started.recv();
                jobs.into_iter().map(|job| run(job, stop)).collect::<Result<Vec<_>>>()
            });
            let tested = tests(self);
            self.started = None;
            let ended = ended.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tested.and(ended)
        })?;
        ended.into_iter().try_for_each(|ended| self.record(ended))
    }

    /// Runs a job by itself.
    pub(crate) fn run_alone(&mut self, job: Job) -> Result<()> {
        match job.kind {
            Kind::Check(mut command) => self.check(&job.suite, &mut command),
            Kind::Tests(targets) => self.tests(&job.suite, targets),
        }
    }

    fn command(&self, job: Job) -> (String, bool, Command) {
        let (is_check, mut command) = match job.kind {
            Kind::Check(command) => (true, command),
            Kind::Tests(targets) => (false, Self::cargo_test_command(targets, &[])),
        };
        self.shared.set_env(&mut command);
        (job.suite, is_check, command)
    }

    fn record(&mut self, ended: Ended) -> Result<()> {
        let Ended { suite, is_check, captured, took } = ended;
        println!("{}", captured.output);
        if is_check {
            self.report.check(&suite, captured.succeeded, took);
            return Ok(());
        }
        let mut output = Output::default();
        captured.output.lines().try_for_each(|line| output.watch(Some(line)))?;
        let run = TestRun { output: &output, skips: &[], succeeded: captured.succeeded, took };
        self.report.tests(&suite, false, &run);
        Ok(())
    }
}

fn run((suite, is_check, command): (String, bool, Command), stop: &Stop) -> Result<Ended> {
    let start = Instant::now();
    let captured = run_in_background(&command, stop)?;
    Ok(Ended { suite, is_check, captured, took: start.elapsed() })
}
