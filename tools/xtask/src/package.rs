//! The packages, packed as they would be published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xtask::cache;
use xtask::stop::Stop;

use crate::commands::{cargo, run, workspace};
use crate::report::Report;

/// What is published.
pub(crate) const PACKAGES: [&str; 7] = [
    "diesel-outbox",
    "diesel-outbox-cli",
    "diesel-outbox-codecs",
    "diesel-outbox-derive",
    "diesel-outbox-otel",
    "diesel-outbox-verify",
    "diesel-outbox-web",
];

/// Packs every crate without `publish = false`, with Cargo's checks before an upload, and checks what is in the packages. A file that is
/// not packed shows here. `cargo publish --dry-run` builds each crate instead, by itself: five times the work. A release does that.
pub(crate) fn check(stop: &Stop) -> Result<Report> {
    let (start, mut report) = (Instant::now(), Report::default());
    if !has_registry() {
        // No failure, in CI neither: nothing of ours is wrong. The packages are created all the same.
        let packed = run(&mut offline(), stop)?;
        report.check("package: without the registry, unchecked", packed, start.elapsed());
        return Ok(report);
    }
    // The tree need not be clean: the release has a separate step for that.
    let mut pack = cargo(&["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty"]);
    let passed = run(&mut pack, stop)? && run(&mut check_unpacked(&unpack()?), stop)?;
    report.check("package", passed, start.elapsed());
    Ok(report)
}

/// Unpacks the packages into a workspace, and returns its folder.
fn unpack() -> Result<PathBuf> {
    let folder = cache::place("package/unpacked");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("remove what was unpacked before")?;
    }
    fs::create_dir_all(&folder)?;
    let mut manifest = String::from("[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n[patch.crates-io]\n");
    for name in PACKAGES {
        let versioned = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let packed = cache::place("package/tmp-crate").join(format!("{versioned}.crate"));
        let mut tar = Command::new("tar");
        let unpacked = tar.arg("xzf").arg(&packed).arg("-C").arg(&folder).status().context("run tar")?;
        ensure!(unpacked.success(), "{} cannot be unpacked", packed.display());
        // Each has a lock file of its own, and the workspace has the one that counts.
        fs::remove_file(folder.join(&versioned).join("Cargo.lock")).context("remove a lock file")?;
        manifest += &format!("{name} = {{ path = \"{versioned}\" }}\n");
    }
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(workspace().join("Cargo.lock"), folder.join("Cargo.lock")).context("copy the lock file")?;
    Ok(folder)
}

fn check_unpacked(folder: &Path) -> Command {
    let mut check = cargo(&["check", "--workspace"]);
    // The dependencies are those of the other checks.
    check.current_dir(folder).env("CARGO_TARGET_DIR", cache::place(""));
    check
}

/// Removes what an earlier dry run unpacked into Cargo's home. Cargo takes a version that it has unpacked for unchanged, so a crate
/// would be built with the library of that run.
pub(crate) fn forget_unpacked() -> std::io::Result<()> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).unwrap_or_default();
    let Ok(registries) = fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    for registry in registries {
        let registry = registry?.path();
        for name in PACKAGES {
            let unpacked = registry.join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
            if unpacked.is_dir() {
                fs::remove_dir_all(unpacked)?;
            }
        }
    }
    Ok(())
}

/// The same packages without access to the registry, not built.
fn offline() -> Command {
    let packages = PACKAGES.map(|name| ["--package", name]);
    cargo(&[["package", "--offline", "--no-verify", "--allow-dirty"].as_slice(), &packages.concat()].concat())
}

/// Whether the registry is reachable: without it a dry run fails, and says nothing about the packages.
pub(crate) fn has_registry() -> bool {
    // Not `cargo search`, which mirrors lack. A crate of ours would be answered locally.
    let mut info = cargo(&["info", "diesel_derives@2.3"]);
    info.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    info.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn files(package: &str) -> Vec<String> {
        let listed = cargo(&["package", "--list", "--offline", "--allow-dirty", "--package", package]).output();
        let listed = listed.expect("run cargo");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8(listed.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
    }

    /// How many files each folder has, by extension.
    fn kinds(files: &[String]) -> BTreeMap<(&str, &str), usize> {
        let mut kinds = BTreeMap::new();
        for file in files {
            let folder = file.split_once('/').map_or("", |(folder, _)| folder);
            let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
            *kinds.entry((folder, ending)).or_insert(0) += 1;
        }
        kinds
    }

    fn has(files: &[String], wanted: &[&str]) {
        for wanted in wanted {
            assert!(files.iter().any(|file| file == wanted), "{wanted} is not among {files:?}");
        }
    }

    #[test]
    fn the_library_is_packed_with_what_users_need_and_nothing_else() {
        let files = files("diesel-outbox");
        let kinds = kinds(&files);
        let kept = |(folder, ending): (&str, &str)| match folder {
            "src" | "examples" => ending == "rs",
            "migrations" => ending == "sql",
            "docs" => ending == "md",
            // Cargo's own files, the licences, README and CHANGELOG.
            "" => true,
            _ => false,
        };
        let strange: Vec<_> = kinds.keys().filter(|kind| !kept(**kind)).collect();
        assert!(strange.is_empty(), "{strange:?}");
        let count =
            |folder: &str| kinds.iter().filter(|((of, _), _)| *of == folder).map(|(_, count)| count).sum::<usize>();
        // Ten at the top: four of Cargo's, two licences, README and CHANGELOG, and two to spare.
        assert!(count("") <= 10 && count("examples") <= 25 && count("docs") <= 40, "{kinds:?}");
        assert!((300..700).contains(&count("src")), "{kinds:?}");
        let is_test = |file: &&String| file.ends_with("/tests.rs") || file.contains("/tests/");
        assert_eq!(files.iter().find(is_test), None);
        has(&files, &["src/guide.rs", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]);
        has(&files, &["docs/guarantees.md", "migrations/outbox/postgres/0000outbox01_messages/up.sql"]);
    }

    #[test]
    fn the_command_line_is_packed_without_its_tests() {
        let files = files("diesel-outbox-cli");
        let folders: BTreeMap<_, _> = kinds(&files);
        assert!(folders.keys().all(|(folder, _)| ["", "src"].contains(folder)), "{folders:?}");
        has(&files, &["src/main.rs", "src/commands/dead/redrive.rs", "LICENSE-MIT", "LICENSE-APACHE"]);
    }

    #[test]
    fn the_dashboard_is_packed_with_its_assets_and_without_its_tests() {
        let files = files("diesel-outbox-web");
        let folders: BTreeMap<_, _> = kinds(&files);
        assert!(folders.keys().all(|(folder, _)| ["", "src"].contains(folder)), "{folders:?}");
        has(
            &files,
            &["src/lib.rs", "src/assets/style.css", "src/assets/refresh.js", "src/assets/icon.svg", "LICENSE-MIT"],
        );
        assert_eq!(files.iter().find(|file| file.contains("/tests/")), None);
    }

    #[test]
    fn the_small_crates_are_packed_without_their_tests() {
        for (package, packed) in [
            ("diesel-outbox-codecs", &["", "src"][..]),
            ("diesel-outbox-derive", &["", "src"]),
            ("diesel-outbox-otel", &["", "examples", "src"]),
            ("diesel-outbox-verify", &["", "src"]),
        ] {
            let files = files(package);
            let folders: BTreeMap<_, _> = kinds(&files);
            assert!(folders.keys().all(|(folder, _)| packed.contains(folder)), "{folders:?}");
            has(&files, &["src/lib.rs", "LICENSE-MIT", "LICENSE-APACHE"]);
        }
    }
}
