//! `cargo xtask test`, step by step.

use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use xtask::servers::ServerKind;
use xtask::stop::Stop;

use crate::checkers::Checker;
use crate::commands::{cargo, run, watch, watch_beside, workspace};
use crate::libtest::Output;
use crate::report::{FailedSuite, Report, TestRun};
use crate::shared_servers::SharedServers;
use crate::test_args::{Only, TestArgs};
use crate::{apt, checkers};

/// Runs what was requested.
pub(crate) fn test(args: &TestArgs, stop: &Stop) -> Result<Report> {
    let servers = args.servers();
    let needs_pip = args.wants(Only::Typos) || args.wants(Only::Deny);
    let of_checkers = if needs_pip { checkers::packages() } else { &[] };
    let of_promtool = if args.wants(Only::Ops) { ServerKind::Prometheus.packages() } else { &[] };
    let shells = if args.integration().is_some() && !args.quick { apt::SHELLS } else { &[] };
    let of_redis = if shells.is_empty() { &[] } else { ServerKind::Redis.packages() };
    install(&servers, &[of_checkers, of_promtool, of_redis, shells].concat(), stop)?;
    let shared = SharedServers::start(&servers)?;
    let mut steps = Steps::new(&shared, stop);
    steps.checks(args)?;
    steps.suites(args)?;
    let mut report = steps.report;
    report.set_left_out(args.left_out());
    if args.keep {
        shared.wait_for_stop(stop);
    }
    Ok(report)
}

/// Installs Debian's packages for the build, for `servers`, and the `further` ones, if they are missing.
pub(crate) fn install(servers: &[ServerKind], further: &[&'static str], stop: &Stop) -> Result<()> {
    let mut packages = apt::missing(apt::BUILD);
    packages.extend(apt::missing(further));
    for kind in servers {
        if kind.check().is_err() {
            // Only missing ones: naming the others would upgrade them.
            packages.extend(apt::missing(kind.packages()));
        }
    }
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    if !apt::can_install() {
        println!("missing packages; as root, run: apt-get install {}", packages.join(" "));
    } else if !apt::install(&packages, stop)? {
        // The run goes on: whatever stays missing is skipped by name, or fails under CI=true.
        println!("apt-get failed");
    }
    Ok(())
}

/// One run: its results, and its servers.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) report: Report,
    pub(crate) shared: &'a SharedServers,
    pub(crate) stop: &'a Stop,
    pub(crate) list: List,
    /// Suites in which a test is to run once more.
    pub(crate) failed: Vec<FailedSuite>,
}

/// Which list of suites a step is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// The only one.
    Only,
    /// One of two that run at the same time: the one that prints each line as it comes.
    First,
    Second,
}

impl<'a> Steps<'a> {
    /// Records the servers that did not start.
    pub(crate) fn new(shared: &'a SharedServers, stop: &'a Stop) -> Self {
        let mut report = Report::default();
        for kind in shared.failures() {
            report.check(&format!("server: {kind}"), false, Duration::ZERO);
        }
        Self { report, shared, stop, list: List::Only, failed: Vec::new() }
    }

    /// Checks of texts and dependencies, which run no test.
    fn checks(&mut self, args: &TestArgs) -> Result<()> {
        if args.wants(Only::Typos) {
            self.typos()?;
        }
        if args.wants(Only::Lint) || args.wants(Only::Tidy) {
            self.component("fmt", "rustfmt", &["fmt", "--all", "--check"])?;
        }
        if args.wants(Only::Deny) {
            // Hundreds of lines that nobody reads each time; a release shows them.
            self.deny(&["--allow", "duplicate"])?;
        }
        Ok(())
    }

    fn suites(&mut self, args: &TestArgs) -> Result<()> {
        let jobs = self.jobs(args)?;
        if args.runs_tests() {
            return self.run_beside(jobs, |steps| steps.test_suites(args));
        }
        jobs.into_iter().try_for_each(|job| self.run_alone(job))
    }

    fn test_suites(&mut self, args: &TestArgs) -> Result<()> {
        if args.wants(Only::Unit) {
            let targets =
                ["--lib", "--bins", "--test", "derive", "--example", "axum_service", "--example", "own_transport"];
            self.tests("unit", cargo_test(&targets, &[]))?;
        }
        if args.is_all() {
            // Both wait much for servers, and take equally long.
            self.side_by_side(
                |steps| steps.integration("it", true, &["--skip", "transport::"]),
                |steps| {
                    // They wait the most, for brokers that are killed and started again.
                    steps.integration("it: transport", false, &["transport::"])?;
                    steps.further_suites(args)
                },
            )?;
        } else {
            if let Some(filter) = args.integration() {
                self.integration("it", true, &filter)?;
            }
            self.further_suites(args)?;
        }
        // Alone: its rates and deadlines need the processors.
        if args.wants(Only::Faults) {
            self.with_servers("faults", false, &["--test", "faults"], &[])?;
        }
        Ok(())
    }

    /// Everything but the integration tests and what must run alone.
    fn further_suites(&mut self, args: &TestArgs) -> Result<()> {
        if args.is_all() {
            let chain = &["--test", "order_chain", "--test", "order_chain_servers"];
            self.with_servers("order chain", false, chain, &[])?;
        }
        if args.wants(Only::BROWSER) {
            self.with_servers("dashboard in chromium", false, &["--test", "browser"], &[])?;
        }
        if args.wants(Only::Docs) {
            self.tests("doctests", cargo_test(&["--doc"], &[]))?;
        }
        if args.wants(Only::Examples) {
            self.examples()?;
        }
        Ok(())
    }

    /// Runs a command that passes or fails as a whole.
    pub(crate) fn check(&mut self, suite: &str, command: &mut Command) -> Result<()> {
        let start = Instant::now();
        let passed = self.run_to_its_end(command, |_| Ok(()))?;
        self.report.check(suite, passed, start.elapsed());
        Ok(())
    }

    /// A check by a component that a toolchain may lack.
    fn component(&mut self, suite: &str, component: &str, arguments: &[&str]) -> Result<()> {
        if !self.has_component(suite, component, arguments[0]) {
            return Ok(());
        }
        self.check(suite, &mut cargo(arguments))
    }

    /// Whether the toolchain has a component, or could add it. `suite` is skipped without it.
    pub(crate) fn has_component(&mut self, suite: &str, component: &str, subcommand: &str) -> bool {
        let present = || {
            let mut version = cargo(&[subcommand, "--version"]);
            version.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let mut add = Command::new("rustup");
        add.args(["component", "add", component]);
        let is_there = present() || (run(&mut add, self.stop).is_ok() && present());
        if !is_there {
            self.report.skip(suite, &format!("{component} is missing: rustup component add {component}"), in_ci());
        }
        is_there
    }

    /// A check by a fetched program; returns whether it could be fetched.
    pub(crate) fn run_fetched(&mut self, suite: &str, checker: &Checker, arguments: &[&str]) -> Result<bool> {
        match checker.get(self.stop) {
            Ok(program) => {
                self.check(suite, Command::new(program).args(arguments).current_dir(workspace()))?;
                return Ok(true);
            }
            Err(error) if self.stop.requested() => return Err(error),
            Err(error) => self.report.skip(suite, &format!("{error:#}"), in_ci()),
        }
        Ok(false)
    }

    /// Checks the spelling, as configured in `typos.toml`.
    fn typos(&mut self) -> Result<()> {
        self.run_fetched("typos", &checkers::TYPOS, &["--format", "brief"]).map(drop)
    }

    /// Checks the dependencies, and known problems with them.
    pub(crate) fn deny(&mut self, levels: &[&str]) -> Result<()> {
        let offline = [&["check", "--hide-inclusion-graph"], levels, &["bans", "licenses", "sources"]].concat();
        if !self.run_fetched("deny", &checkers::DENY, &offline)? {
            return Ok(());
        }
        // A separate repository, not a registry. Fetching may hang if a network silently drops packets.
        let mut database = Command::new("timeout");
        database.arg("60").arg(checkers::DENY.get(self.stop)?).args(["fetch", "db"]).current_dir(workspace());
        if run(&mut database, self.stop)? {
            return self.run_fetched("deny: advisories", &checkers::DENY, &["check", "advisories"]).map(drop);
        }
        // No failure, in CI neither: nothing of ours is wrong, and we cannot fix it.
        self.report.skip("deny: advisories", "the RustSec database cannot be reached", false);
        Ok(())
    }

    /// Compares the public API with that of the release at `tag`.
    pub(crate) fn semver(&mut self, tag: &str) -> Result<()> {
        let arguments = ["semver-checks", "--package", "diesel-outbox", "--baseline-rev", tag];
        self.run_fetched(&format!("semver: since {tag}"), &checkers::SEMVER, &arguments).map(drop)
    }

    /// Tests that need no server.
    pub(crate) fn tests(&mut self, suite: &str, command: Command) -> Result<()> {
        let start = Instant::now();
        let (output, succeeded) = self.run_tests(command)?;
        let skips = self.shared.take_skips(self.skips())?;
        self.report.tests(suite, false, &TestRun { output: &output, skips: &skips, succeeded, took: start.elapsed() });
        Ok(())
    }

    /// Runs the integration tests that `filter` selects.
    pub(crate) fn integration(&mut self, suite: &str, by_module: bool, filter: &[&str]) -> Result<()> {
        let threads = format!("--test-threads={}", self.test_threads());
        let arguments: Vec<_> = [threads.as_str()].into_iter().chain(filter.iter().copied()).collect();
        self.with_servers(suite, by_module, &["--test", "it"], &arguments)
    }

    /// The file in which its tests record their skips: each list takes only its own.
    pub(crate) fn skips(&self) -> &'static str {
        if self.list == List::Second { "skips-beside" } else { "skips" }
    }

    /// How many integration tests run at once. Many wait for a server or a deadline, so there are two for each processor. A second list
    /// adds one for each, because it waits for brokers that start. With more, tests miss their deadlines.
    fn test_threads(&self) -> usize {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        if self.list == List::Second { processors } else { 2 * processors }
    }

    /// Runs a [`cargo_test`].
    pub(crate) fn run_tests(&self, mut command: Command) -> Result<(Output, bool)> {
        let mut output = Output::default();
        let watched = self.run_to_its_end(&mut command, |line| output.watch(line));
        if output.hangs {
            println!("stopped: nothing was printed for too long{}", output.unfinished());
            output.fail_unfinished()?;
            return Ok((output, false));
        }
        let succeeded =
            watched.with_context(|| format!("{} tests had ended{}", output.tests.len(), output.unfinished()))?;
        Ok((output, succeeded))
    }

    fn run_to_its_end(&self, command: &mut Command, see: impl FnMut(Option<&str>) -> Result<()>) -> Result<bool> {
        self.shared.set_env(command, self.skips());
        if self.list == List::Second { watch_beside(command, self.stop, see) } else { watch(command, self.stop, see) }
    }
}

/// Always over the whole workspace with the same features: other features are another build.
pub(crate) fn cargo_test(targets: &[&str], filter: &[&str]) -> Command {
    cargo(&[&["test", "--no-fail-fast", "--workspace", "--features", "_test"], targets, &["--"], filter].concat())
}

/// Whether nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}
