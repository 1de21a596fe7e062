//! The packages, packed as they would be published.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::commands::cargo;

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

/// Everything up to the upload, for every crate without `publish = false`. The tree need not be clean: the release has a separate
/// step for that.
pub(crate) fn dry_run() -> Command {
    cargo(&["publish", "--workspace", "--dry-run", "--allow-dirty"])
}

/// Removes what an earlier [`dry_run`] unpacked into Cargo's home. Cargo takes a version that it has unpacked for unchanged, so a crate
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
pub(crate) fn offline() -> Command {
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
        has(&files, &["docs/guarantees.md", "migrations/postgres/0000outbox01_messages/up.sql"]);
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
