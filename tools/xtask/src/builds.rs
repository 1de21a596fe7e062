//! Checks that only build, and run beside the integration tests.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use xtask::stop::Stop;

use crate::commands::{Captured, cargo, run_in_background};
use crate::steps::Steps;
use crate::test_args::{Only, TestArgs};
use crate::{features, package};

/// A check that passes where its command succeeds.
#[derive(Debug)]
pub(crate) struct Build {
    suite: String,
    command: Command,
}

impl Build {
    fn new(suite: &str, command: Command) -> Self {
        Self { suite: suite.to_owned(), command }
    }

    fn run(self, stop: &Stop) -> Result<(String, Captured, Duration)> {
        let start = Instant::now();
        let captured = run_in_background(&self.command, stop)?;
        Ok((self.suite, captured, start.elapsed()))
    }
}

impl Steps<'_> {
    /// Checks that only build: nothing waits for them, and they wait for nothing.
    pub(crate) fn builds(&mut self, args: &TestArgs) -> Result<Vec<Build>> {
        let mut builds = Vec::new();
        if args.wants(Only::Features) && self.has_component("features", "clippy", "clippy") {
            for choice in features::CHOICES {
                let suite = format!("features: {}", if choice.is_empty() { "none" } else { choice });
                builds.push(Build { suite, command: cargo(&features::check(choice)) });
            }
            for choice in features::OTEL_CHOICES {
                let suite = format!("features: otel, {}", if choice.is_empty() { "none" } else { choice });
                builds.push(Build { suite, command: cargo(&features::check_otel(choice)) });
            }
            builds.push(Build::new("features: injected bugs", cargo(features::INJECTED_BUGS)));
        }
        if args.wants(Only::Package) {
            builds.push(match package::has_registry() {
                true => Build::new("package", package::dry_run()),
                // No failure, in CI neither: nothing of ours is wrong. The packages are created all the same.
                false => Build::new("package: without the registry, unbuilt", package::offline()),
            });
        }
        if args.wants(Only::Docs) {
            let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
            doc.env("RUSTDOCFLAGS", "-D warnings");
            builds.push(Build::new("docs", doc));
        }
        builds.iter_mut().for_each(|build| self.shared.set_env(&mut build.command));
        Ok(builds)
    }

    /// Runs the integration tests, which mostly wait, and the `builds` on the processors that they leave idle.
    pub(crate) fn integration_beside(&mut self, suite: &str, filter: &[&str], builds: Vec<Build>) -> Result<()> {
        let (stop, (started, has_started)) = (self.stop, mpsc::channel());
        let built = thread::scope(|scope| {
            let built = scope.spawn(move || {
                // Cargo builds one thing at a time in a target folder: the tests come first. An error means that they have
                // ended, or were not even built.
                let _ = has_started.recv();
                builds.into_iter().map(|build| build.run(stop)).collect::<Result<Vec<_>>>()
            });
            let tested = self.integration(suite, filter, Some(&started));
            drop(started);
            let built = built.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tested.and(built)
        })?;
        for (suite, captured, took) in built {
            println!("{}", captured.output);
            self.report.check(&suite, captured.succeeded, took);
        }
        Ok(())
    }

    /// Runs one by itself.
    pub(crate) fn check_build(&mut self, mut build: Build) -> Result<()> {
        self.check(&build.suite, &mut build.command)
    }
}
