//! `cargo xtask release --dry-run`: the steps of a release in CONTRIBUTING.md, up to those that cannot be undone.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use xtask::stop::Stop;

use crate::commands::{cargo, watch, workspace};
use crate::commit::{self, FreshClone, git};
use crate::package;
use crate::report::Report;
use crate::shared_servers::SharedServers;
use crate::steps::Steps;

/// What is checked before a release.
#[derive(Debug, Args)]
pub(crate) struct Release {
    /// Check, and publish nothing. There is no other mode: publishing cannot be undone, so a person types that command
    #[arg(long, required = true)]
    dry_run: bool,
    /// Skip CI in a fresh clone, which takes half an hour
    #[arg(long)]
    without_ci: bool,
}

/// One row for each step.
pub(crate) fn release(args: &Release, stop: &Stop) -> Result<Report> {
    let version = env!("CARGO_PKG_VERSION");
    let shared = SharedServers::start(&[])?;
    let mut steps = Steps::new(&shared, stop);
    let read = |file: &str| fs::read_to_string(workspace().join(file)).with_context(|| format!("read {file}"));
    report_check(&mut steps.report, "changelog", &changelog(&read("CHANGELOG.md")?, version));
    report_check(&mut steps.report, "versions", &versions(&read("Cargo.toml")?, version));
    report_check(&mut steps.report, "tag", &tag(version));
    report_check(&mut steps.report, "clean tree", &clean());
    steps.deny(&[])?;
    compare(&mut steps)?;
    match package::has_registry() {
        true => {
            package::forget_unpacked()?;
            steps.check("publish --dry-run", &mut cargo(&["publish", "--workspace", "--dry-run"]))?;
        }
        false => steps.report.skip("publish --dry-run", "the registry does not answer", false),
    }
    if args.without_ci {
        steps.report.skip("ci in a fresh clone", "left out by --without-ci", false);
    } else {
        ci(&mut steps.report, stop)?;
    }
    println!("\nIf nothing failed and nothing was skipped, now run:");
    println!("  cargo publish --workspace\n  git tag v{version}\n  git push origin v{version}");
    Ok(steps.report)
}

/// `cargo xtask semver`
pub(crate) fn semver(stop: &Stop) -> Result<Report> {
    let shared = SharedServers::start(&[])?;
    let mut steps = Steps::new(&shared, stop);
    compare(&mut steps)?;
    Ok(steps.report)
}

fn compare(steps: &mut Steps<'_>) -> Result<()> {
    match commit::last_release() {
        Some(tag) => steps.semver(&tag),
        None => {
            println!("\nsemver: there is no release to compare with yet");
            Ok(())
        }
    }
}

/// Adds a check of a text or the repository: `Err` says what is wrong.
fn report_check(report: &mut Report, suite: &str, outcome: &Result<(), String>) {
    if let Err(complaint) = outcome {
        println!("{suite}: {complaint}");
    }
    report.check(suite, outcome.is_ok(), Duration::ZERO);
}

/// The entries are under the version, with a date, and nothing is left unreleased.
fn changelog(text: &str, version: &str) -> Result<(), String> {
    let mut sections = text.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap_or((section, "")));
    let heading = format!("[{version}] - ");
    let Some((_, entries)) = sections.clone().find(|(found, _)| found.starts_with(&heading)) else {
        return Err(format!("no section `## {heading}<date>` in CHANGELOG.md"));
    };
    if entries.trim().is_empty() {
        return Err(format!("the section of {version} is empty"));
    }
    match sections.find(|(found, _)| *found == "[Unreleased]") {
        Some((_, rest)) if !rest.trim().is_empty() => Err(format!("unreleased entries are above {version}")),
        _ => Ok(()),
    }
}

/// Our crates depend on each other in the current version.
fn versions(manifest: &str, version: &str) -> Result<(), String> {
    let ours = |line: &&str| line.contains(" = { path = ") && line.contains("version = ");
    let wrong: Vec<_> =
        manifest.lines().filter(ours).filter(|line| !line.contains(&format!("\"{version}\""))).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("not {version}: {}", wrong.join("; "))) }
}

fn tag(version: &str) -> Result<(), String> {
    let found = git(&["tag", "--list", &format!("v{version}")]).map_err(|error| format!("{error:#}"))?;
    if found.is_empty() { Ok(()) } else { Err(format!("{found} exists already: raise the version")) }
}

fn clean() -> Result<(), String> {
    let changed = git(&["status", "--porcelain"]).map_err(|error| format!("{error:#}"))?;
    if changed.is_empty() { Ok(()) } else { Err(format!("these changes are in no commit:\n{changed}")) }
}

/// `.ci/run` in a clone, which contains only committed files.
fn ci(report: &mut Report, stop: &Stop) -> Result<()> {
    let (clone, start) = (FreshClone::new()?, Instant::now());
    let mut last = String::new();
    let mut run = Command::new("bash");
    run.arg(".ci/run").env("CI", "true").current_dir(clone.path());
    let passed = watch(&mut run, stop, |line| {
        if let Some(line) = line.filter(|line| !line.is_empty()) {
            line.clone_into(&mut last);
        }
        Ok(())
    })?;
    report.check("ci in a fresh clone", passed, start.elapsed());
    if passed && !last.ends_with(", 0 skipped") {
        report.skip("ci in a fresh clone: all of it", &last, false);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_is_ready_once_its_entries_stand_under_the_version() {
        let of = |sections: &str| changelog(&format!("# Changelog\n\n{sections}"), "0.2.0");
        assert_eq!(of("## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n- new\n\n## [0.1.0] - 2025-01-01\n"), Ok(()));
        assert_eq!(of("## [0.2.0] - 2026-01-02\n- new\n"), Ok(()));
        for (sections, why) in [
            ("## [Unreleased]\n\n- new\n", "no section"),
            ("## [0.2.0]\n\n- new\n", "no section"),
            ("## [Unreleased]\n- newer\n## [0.2.0] - 2026-01-02\n- new\n", "above 0.2.0"),
            ("## [0.2.0] - 2026-01-02\n\n## [0.1.0] - 2025-01-01\n- old\n", "empty"),
        ] {
            assert!(of(sections).unwrap_err().contains(why), "{sections}");
        }
    }

    #[test]
    fn crates_that_require_an_older_one_of_ours_are_named() {
        let manifest = "a = { path = \".\", version = \"0.1.0\" }\nserde = { version = \"1.0\" }";
        assert_eq!(versions(manifest, "0.1.0"), Ok(()));
        assert!(versions(manifest, "0.2.0").unwrap_err().contains("a = "));
    }
}
