//! `cargo xtask test`, step by step.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use xtask::servers::Part;
use xtask::stop::Stop;

use crate::libtest::Output;
use crate::report::{Report, TestRun};
use crate::shared::Shared;
use crate::tools::{cargo, run, watch, workspace};
use crate::{apt, features, package};

/// A selection of the steps, or of the tests by what they run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Only {
    /// Tests with this server in their name.
    Server(Part),
    /// Tests with SQLite in their name.
    Sqlite,
    /// Tests inside the crates.
    Unit,
    /// The model of the protocol.
    Model,
    /// Real applications under faults, for a minute.
    Faults,
    /// Formatting and clippy.
    Lint,
    /// The library with a few of its features.
    Features,
    /// What is to be published, packed.
    Package,
    /// Formatting and the house rules.
    Tidy,
    /// Documentation and its examples.
    Docs,
    /// The example programs.
    Examples,
}

impl Only {
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "sqlite" => Self::Sqlite,
            "unit" => Self::Unit,
            "model" => Self::Model,
            "faults" => Self::Faults,
            "lint" => Self::Lint,
            "features" => Self::Features,
            "package" => Self::Package,
            "tidy" => Self::Tidy,
            "docs" => Self::Docs,
            "examples" => Self::Examples,
            _ => Self::Server(Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
                "one of postgres, mariadb, kafka, rocketmq, sqlite, unit, model, faults, lint, features, package, tidy, docs, examples".to_owned()
            })?),
        })
    }

    /// What the names of its integration tests contain.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Server(Part::Postgres) => &["postgres"],
            Self::Server(Part::Mariadb) => &["mariadb", "mysql"],
            Self::Server(Part::Kafka) => &["kafka"],
            Self::Server(Part::Rocketmq) => &["rocketmq"],
            Self::Sqlite => &["sqlite"],
            Self::Tidy => &["tidy::"],
            Self::Unit | Self::Model | Self::Faults | Self::Lint | Self::Features => &[],
            Self::Package | Self::Docs | Self::Examples => &[],
        }
    }
}

/// Runs what was asked for; an empty `only` and `filter` ask for everything.
pub(crate) fn test(only: &[Only], keep: bool, filter: &[String], stop: &Stop) -> Result<Report> {
    let all = only.is_empty() && filter.is_empty();
    let wants = |step: Only| all || (filter.is_empty() && only.contains(&step));
    let serve = |part: &Part| only.contains(&Only::Server(*part)) || only.is_empty() || wants(Only::Examples);
    let parts: Vec<_> = Part::ALL.into_iter().filter(serve).collect();
    install(&parts, stop)?;
    let shared = Shared::start(&parts)?;
    let mut steps = Steps { report: Report::default(), shared: &shared, stop };
    for part in shared.failures() {
        steps.report.check(&format!("server: {part}"), false, Duration::ZERO);
    }
    if wants(Only::Lint) || wants(Only::Tidy) {
        steps.component("fmt", "rustfmt", &["fmt", "--all", "--check"])?;
    }
    if wants(Only::Lint) {
        let arguments = ["clippy", "--workspace", "--all-targets", "--features", "_test", "--", "-D", "warnings"];
        steps.component("clippy", "clippy", &arguments)?;
    }
    if wants(Only::Features) {
        for choice in features::CHOICES {
            let suite = format!("features: {}", if choice.is_empty() { "none" } else { choice });
            steps.component(&suite, "clippy", &features::check(choice))?;
        }
    }
    if wants(Only::Package) {
        match package::has_registry() {
            true => steps.check("package", &mut package::dry_run())?,
            // Not a failure, in CI neither: nothing of ours is wrong. The packages are made all the same.
            false => steps.check("package: without the registry, unbuilt", &mut package::offline())?,
        }
    }
    if wants(Only::Unit) {
        steps.tests("unit", &["--lib", "--bins"], &[])?;
    }
    let names: Vec<_> = only.iter().flat_map(|only| only.names().iter().copied()).collect();
    if all || !names.is_empty() || !filter.is_empty() {
        let filter: Vec<_> = if filter.is_empty() { names } else { filter.iter().map(String::as_str).collect() };
        steps.tests("it", &["--test", "it"], &filter)?;
    }
    if wants(Only::Model) {
        steps.tests("model", &["--test", "model"], &[])?;
    }
    if wants(Only::Faults) {
        steps.tests("faults", &["--test", "faults"], &[])?;
    }
    if wants(Only::Docs) {
        steps.tests("doctests", &["--doc"], &[])?;
        let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--all-features"]);
        steps.check("docs", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    }
    if wants(Only::Examples) {
        steps.examples()?;
    }
    let report = steps.report;
    if keep {
        shared.hold(stop);
    }
    Ok(report)
}

fn install(parts: &[Part], stop: &Stop) -> Result<()> {
    let mut packages = apt::missing(apt::BUILD);
    for part in parts {
        if part.check().is_err() {
            // Only what is not there: naming the others would upgrade them.
            packages.extend(apt::missing(part.packages()));
        }
    }
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    if !apt::can_install() {
        println!("missing here, and only root can install it: apt-get install {}", packages.join(" "));
    } else if !apt::install(&packages, stop)? {
        // Not an end: what stays missing is skipped by name, or fails under CI=true.
        println!("apt-get failed");
    }
    Ok(())
}

/// So many of the tests with real servers are run once more, alone, where they failed: two busy processors starve one of them beyond its
/// deadline now and then. The summary names them. More than that is no coincidence.
const AGAIN_MAX: usize = 3;

struct Steps<'a> {
    report: Report,
    shared: &'a Shared,
    stop: &'a Stop,
}

impl Steps<'_> {
    /// A command that passes or fails as a whole.
    fn check(&mut self, suite: &str, command: &mut Command) -> Result<()> {
        let start = Instant::now();
        self.shared.equip(command);
        let passed = run(command, self.stop)?;
        self.report.check(suite, passed, start.elapsed());
        Ok(())
    }

    /// A check by a component that a toolchain may lack.
    fn component(&mut self, suite: &str, component: &str, arguments: &[&str]) -> Result<()> {
        let present = || {
            let mut version = cargo(&[arguments[0], "--version"]);
            version.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let mut add = Command::new("rustup");
        add.args(["component", "add", component]);
        if !present() && (run(&mut add, self.stop).is_err() || !present()) {
            self.report.skip(suite, &format!("no {component}: rustup component add {component}"), in_ci());
            return Ok(());
        }
        self.check(suite, &mut cargo(arguments))
    }

    /// `cargo test`, always over the whole workspace with the same features: another choice is another build.
    fn tests(&mut self, suite: &str, targets: &[&str], filter: &[&str]) -> Result<()> {
        let start = Instant::now();
        let (mut output, mut succeeded) = self.cargo_test(targets, filter)?;
        let skips = self.shared.take_skips()?;
        let failed = output.named_failures().filter(|failed| (1..=AGAIN_MAX).contains(&failed.len()));
        if let Some(failed) = failed.filter(|_| suite == "it") {
            println!("once more: {}", failed.join(", "));
            let exact: Vec<_> = ["--exact"].into_iter().chain(failed.iter().map(String::as_str)).collect();
            let (again, has_succeeded) = self.cargo_test(targets, &exact)?;
            output.mend(&again);
            succeeded = has_succeeded;
            // They are not skipped now that were not skipped before.
            self.shared.take_skips()?;
        }
        let run = TestRun { output: &output, skips: &skips, succeeded, took: start.elapsed() };
        self.report.tests(suite, suite == "it", &run);
        Ok(())
    }

    fn cargo_test(&self, targets: &[&str], filter: &[&str]) -> Result<(Output, bool)> {
        let arguments =
            [&["test", "--no-fail-fast", "--workspace", "--features", "_test"], targets, &["--"], filter].concat();
        let mut command = cargo(&arguments);
        self.shared.equip(&mut command);
        let mut output = Output::default();
        let watched = watch(&mut command, self.stop, |line| output.watch(line));
        if output.hangs {
            println!("ended: nothing was printed for too long{}", output.unfinished());
            output.fail_unfinished()?;
            return Ok((output, false));
        }
        let succeeded =
            watched.with_context(|| format!("{} tests had ended{}", output.tests.len(), output.unfinished()))?;
        Ok((output, succeeded))
    }

    /// Each example by the command that its text tells the reader. It needs the servers whose variables its text names.
    fn examples(&mut self) -> Result<()> {
        let folder = workspace().join("examples");
        let mut names = Vec::new();
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let file = if path.is_dir() { path.join("main.rs") } else { path.clone() };
            if file.is_file() && file.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                names.push((name, text));
            }
        }
        names.sort();
        // The README's first command.
        let quickstart = names.iter().any(|(name, _)| name == "quickstart");
        if !quickstart {
            self.report.check("example: quickstart is missing", false, Duration::ZERO);
        }
        for (name, text) in names {
            let suite = format!("example: {name}");
            let needs = |part: &Part| text.contains(part.variable());
            let lacks = Part::ALL.into_iter().filter(needs).find_map(|part| Some((part, self.shared.missing(part)?)));
            match lacks {
                Some((part, reason)) => self.report.skip(&suite, &format!("no {part}: {reason}"), in_ci()),
                None => self.check(&suite, &mut cargo(&told(&name, &text)))?,
            }
        }
        Ok(())
    }
}

/// The arguments of the command in an example's text: one that needs a C library needs a feature.
fn told<'a>(name: &'a str, text: &'a str) -> Vec<&'a str> {
    let commands = text.lines().filter_map(|line| line.strip_prefix("//! cargo "));
    let mut commands = commands.map(|command| command.split_whitespace().collect::<Vec<_>>());
    let plain = vec!["run", "--example", name];
    commands.find(|command| command.starts_with(&plain)).unwrap_or(plain)
}

fn in_ci() -> bool {
    std::env::var("CI").as_deref() == Ok("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_run_as_its_text_says() {
        let command = |text| told("shop", text).join(" ");
        assert_eq!(command("//! A shop.\n"), "run --example shop");
        assert_eq!(command("//! cargo run --example shop --features a/b\n"), "run --example shop --features a/b");
        assert_eq!(command("//! cargo run --example shops --features a/b\n"), "run --example shop");
    }
}
