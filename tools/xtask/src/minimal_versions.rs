//! The lowest versions of the dependencies and of Rust that the manifests allow.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xtask::cache;
use xtask::stop::Stop;

use crate::commands::{cargo, run};
use crate::commit::FreshClone;
use crate::package::PACKAGES;
use crate::report::Report;

/// Builds the libraries with the lowest version of each direct dependency. A lower bound that is too low shows here, and in no
/// build with a lock file. In a clone, because it changes the lock file.
pub(crate) fn check(stop: &Stop) -> Result<Report> {
    let (clone, start) = (FreshClone::new()?, Instant::now());
    leave_only_libraries(clone.path())?;
    // Only direct dependencies (not `-Z minimal-versions`): we cannot fix the bounds of other crates. The variable lets a stable
    // Cargo use a nightly option; the following build runs without it.
    let mut update = cargo(&["update", "-Z", "direct-minimal-versions"]);
    ensure!(
        run(update.env("RUSTC_BOOTSTRAP", "1").current_dir(clone.path()), stop)?,
        "cargo found no set of lowest versions"
    );
    let packages = PACKAGES.map(|name| ["--package", name]);
    let mut check = cargo(&[["check", "--locked", "--lib", "--all-features"].as_slice(), &packages.concat()].concat());
    check.env("CARGO_TARGET_DIR", cache::place("minimal-versions")).current_dir(clone.path());
    let passed = run(&mut check, stop)?;
    let mut report = Report::default();
    report.check("minimal versions", passed, start.elapsed());
    Ok(report)
}

/// Removes the tests' dependencies and the tools from the manifests of `tree`: what they need must not raise a library's versions.
fn leave_only_libraries(tree: &Path) -> Result<()> {
    for entry in fs::read_dir(tree.join("crates"))? {
        strip(&entry?.path())?;
    }
    strip(tree)
}

fn strip(package: &Path) -> Result<()> {
    let manifest = package.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
    fs::write(&manifest, without_tests(&text)).with_context(|| format!("write {}", manifest.display()))
}

/// The manifest without dependencies of tests, and without members of the workspace that are not published.
fn without_tests(manifest: &str) -> String {
    let (mut kept, mut is_for_tests) = (String::new(), false);
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_for_tests = line.contains("dev-dependencies");
        }
        if !is_for_tests
            && !line.trim_start().starts_with(r#""examples/"#)
            && !line.trim_start().starts_with(r#""tools/"#)
        {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::commands::{metadata, workspace};

    #[test]
    fn only_what_a_library_needs_is_left_of_a_manifest() {
        let manifest = "[workspace]\nmembers = [\n    \"crates/derive\",\n    \"tools/xtask\",\n]\n[dependencies]\na = \"1\"\n\
                        [target.'cfg(unix)'.dev-dependencies]\nb = \"1\"\n[dev-dependencies]\nc = \"1\"\n[lints]\nworkspace = true\n";
        let left = "[workspace]\nmembers = [\n    \"crates/derive\",\n]\n[dependencies]\na = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(without_tests(manifest), left);
    }

    /// Cargo's resolver chooses versions that an older Rust builds, except for pinned ones. Of those only RocketMQ's client needs a
    /// newer Rust, which the README names.
    #[test]
    fn the_readme_says_which_rust_the_pinned_dependencies_need() {
        let metadata = metadata();
        let packages = metadata["packages"].as_array().expect("packages");
        let named = |name: &str| packages.iter().find(|package| package["name"] == name).expect("a package");
        let ours = named("diesel-outbox");
        let dependencies = ours["dependencies"].as_array().expect("dependencies").iter();
        let pinned = dependencies.filter(|of| of["req"].as_str().is_some_and(|req| req.starts_with('=')));
        let version = |package: &Value| {
            let text = package["rust_version"].as_str().unwrap_or("0").to_owned();
            text.split('.').map(|number| number.parse().expect("a number")).collect::<Vec<u32>>()
        };
        let needed =
            pinned.map(|of| version(named(of["name"].as_str().expect("a name")))).max().expect("RocketMQ is pinned");
        let stated = format!("({}.{} with `rocketmq`)", needed[0], needed[1]);
        let readme = std::fs::read_to_string(workspace().join("README.md")).expect("the README");
        assert!(readme.contains(&stated), "README.md should say {stated}");
    }
}
