//! Steps at the same time: two lists of tests, and beside them jobs that wait for nothing. Jobs take the processors that the tests leave
//! idle: while those wait for servers, and while one crate is built on which all others wait.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use xtask::cache;
use xtask::stop::Stop;

use crate::commands::{cargo, run_in_background, workspace};
use crate::libtest::Output;
use crate::report::{Report, TestRun};
use crate::steps::{List, Steps, cargo_test};
use crate::test_args::{Only, TestArgs};
use crate::{examples, features};

const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--features", "_test", "--", "-D", "warnings"];

/// A step that needs no server.
#[derive(Debug)]
pub(crate) struct Job {
    suite: String,
    kind: Kind,
    command: Command,
}

#[derive(Debug)]
enum Kind {
    /// Passes where its command succeeds.
    Check,
    /// Runs tests.
    Tests,
}

impl Job {
    pub(crate) fn check(suite: &str, command: Command) -> Self {
        Self { suite: suite.to_owned(), kind: Kind::Check, command }
    }

    /// Checks by Cargo have a target folder of their own, where they wait for no build of a test. They would not use its files anyway.
    fn cargo(suite: &str, mut command: Command) -> Self {
        command.env("CARGO_TARGET_DIR", cache::place("checks"));
        Self::check(suite, command)
    }

    fn tests(suite: &str, command: Command) -> Self {
        Self { suite: suite.to_owned(), kind: Kind::Tests, command }
    }

    fn run(&self, stop: &Stop) -> Result<Ran> {
        let (start, mut printed, mut results) = (Instant::now(), String::new(), Output::default());
        let see = |line: Option<&str>| if line.is_some() { results.watch(line) } else { Ok(()) };
        let succeeded = run_in_background(&self.command, stop, &mut printed, see)?;
        Ok(Ran { succeeded, printed, results, took: start.elapsed() })
    }
}

/// What became of a job.
#[derive(Debug)]
struct Ran {
    succeeded: bool,
    printed: String,
    /// Empty where it runs no test.
    results: Output,
    took: Duration,
}

impl Steps<'_> {
    /// The jobs that were requested, those first whose failure is the most likely.
    pub(crate) fn jobs(&mut self, args: &TestArgs) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        if args.wants(Only::Lint) && self.has_component("clippy", "clippy", "clippy") {
            jobs.push(Job::cargo("clippy", cargo(CLIPPY)));
        }
        if args.wants(Only::Ops) {
            jobs.extend(self.alert_rules()?);
        }
        if args.wants(Only::Features) && self.has_component("features", "clippy", "clippy") {
            for (package, choices) in features::PACKAGES {
                for choice in choices.of_run(args.is_all()) {
                    let suite = format!("features: {package}, {}", if choice.is_empty() { "none" } else { choice });
                    jobs.push(Job::cargo(&suite, cargo(&features::check(package, choice))));
                }
            }
            jobs.push(Job::cargo("features: injected bugs", cargo(features::INJECTED_BUGS)));
        }
        if args.wants(Only::Examples) {
            jobs.push(Job::cargo("examples: check", examples::check_of_examples()?));
        }
        if args.wants(Only::Package) {
            let mut package = Command::new(std::env::current_exe()?);
            package.arg("package").current_dir(workspace());
            jobs.push(Job::cargo("package", package));
        }
        if args.wants(Only::Docs) {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
            doc.env("RUSTDOCFLAGS", "-D warnings");
            jobs.push(Job::cargo("docs", doc));
        }
        // Last, because it waits while a test is built.
        if args.wants(Only::Model) {
            jobs.push(Job::tests("model", cargo_test(&["--test", "model"], &[])));
        }
        Ok(jobs)
    }

    /// Runs the tests, and the jobs beside them.
    pub(crate) fn run_beside(&mut self, mut jobs: Vec<Job>, tests: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        jobs.iter_mut().for_each(|job| self.shared.set_env(&mut job.command, self.skips()));
        let (stop, jobs) = (self.stop, &jobs);
        let ended = thread::scope(|scope| {
            let ended = scope.spawn(move || jobs.iter().map(|job| job.run(stop)).collect::<Result<Vec<_>>>());
            let tested = tests(self);
            let ended = ended.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tested.and(ended)
        })?;
        jobs.iter().zip(ended).for_each(|(job, ran)| self.record(job, &ran));
        Ok(())
    }

    /// Runs both at the same time. What the commands of `second` print is shown when each has ended. Failed tests run once more after
    /// both.
    pub(crate) fn side_by_side(
        &mut self,
        first: impl FnOnce(&mut Self) -> Result<()>,
        second: impl FnOnce(&mut Self) -> Result<()> + Send,
    ) -> Result<()> {
        let (report, failed) = (Report::default(), Vec::new());
        let mut beside = Self { report, failed, list: List::Second, ..*self };
        self.list = List::First;
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                let ended = second(&mut beside);
                beside.record_error(ended)
            });
            let ended = first(self);
            (self.record_error(ended), other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        self.list = List::Only;
        self.report.add(beside.report);
        self.failed.append(&mut beside.failed);
        one.and(other)?;
        self.rerun()
    }

    /// Makes an error that ends a list a failure of the run: the results of the other list are to be shown too.
    fn record_error(&mut self, ended: Result<()>) -> Result<()> {
        match ended {
            Err(error) if !self.stop.requested() => {
                println!("error: {error:#}");
                self.report.check(&format!("{error:#}"), false, Duration::ZERO);
                Ok(())
            }
            ended => ended,
        }
    }

    /// Runs a job by itself.
    pub(crate) fn run_alone(&mut self, mut job: Job) -> Result<()> {
        match job.kind {
            Kind::Check => self.check(&job.suite, &mut job.command),
            Kind::Tests => self.tests(&job.suite, job.command),
        }
    }

    fn record(&mut self, job: &Job, ran: &Ran) {
        let Ran { succeeded, printed, results, took } = ran;
        println!("{printed}");
        match job.kind {
            Kind::Check => self.report.check(&job.suite, *succeeded, *took),
            Kind::Tests => {
                let run = TestRun { output: results, skips: &[], succeeded: *succeeded, took: *took };
                self.report.tests(&job.suite, false, &run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::shared_servers::SharedServers;

    #[test]
    fn two_lists_run_at_the_same_time_and_are_reported_one_after_the_other() {
        const DEADLINE: Duration = Duration::from_secs(30);
        let (shared, stop) = (SharedServers::start(&[]).expect("a folder"), Stop::on_signals().expect("signals"));
        let mut steps = Steps::new(&shared, &stop);
        let (from_first, to_second) = mpsc::channel();
        let (from_second, to_first) = mpsc::channel();
        let first = |steps: &mut Steps<'_>| {
            from_first.send(())?;
            to_first.recv_timeout(DEADLINE)?;
            steps.check("first", &mut Command::new("true"))
        };
        let second = move |steps: &mut Steps<'_>| {
            from_second.send(())?;
            to_second.recv_timeout(DEADLINE)?;
            steps.check("second", Command::new("sh").args(["-c", "echo printed; exit 1"]))
        };
        steps.side_by_side(first, second).expect("both end");
        steps.side_by_side(|_| Ok(()), |_| anyhow::bail!("no program")).expect("a failure of the run");
        assert_eq!(steps.report.failed(), 2);
        let report = steps.report.to_string();
        assert!(report.find("first  ").expect("the first") < report.find("second  ").expect("the second"), "{report}");
        assert!(report.contains("\n  second\n  no program\n"), "{report}");
    }
}
