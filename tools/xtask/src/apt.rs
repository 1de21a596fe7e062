//! Debian's packages.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use xtask::stop::Stop;

use crate::commands::run;

/// Libraries that the tests link, the tools to build librdkafka, and libfaketime.
pub(crate) const BUILD: &[&str] =
    &["build-essential", "pkg-config", "libpq-dev", "libmariadb-dev", "libssl-dev", "zlib1g-dev", "libfaketime"];

/// The shells whose completions the tests of the command line source, besides bash.
pub(crate) const SHELLS: &[&str] = &["zsh", "fish"];

/// Whether packages can be installed on this machine.
pub(crate) fn can_install() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists()
}

/// Those of `packages` that are not installed according to dpkg; none on other systems.
pub(crate) fn missing(packages: &[&'static str]) -> Vec<&'static str> {
    let installed = |package: &str| {
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${db:Status-Status}", package]).stderr(Stdio::null());
        query.output().map_or(true, |output| output.stdout == b"installed")
    };
    packages.iter().copied().filter(|package| !installed(package)).collect()
}

/// Installs `packages` without questions and without starting their services.
pub(crate) fn install(packages: &[&str], stop: &Stop) -> Result<bool> {
    let _policy = NoServices::declare()?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-y"]).args(arguments);
        run(&mut command, stop)
    };
    Ok(apt(&["update"])? && apt(&[&["install", "--no-install-recommends"], packages].concat())?)
}

/// Debian starts a server when it is installed, but not while this file exists. We start our own.
struct NoServices {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServices {
    fn declare() -> Result<Self> {
        let ours = !Path::new(POLICY).exists();
        if ours {
            fs::write(POLICY, "#!/bin/sh\nexit 101\n").context("keep Debian from starting services")?;
            fs::set_permissions(POLICY, Permissions::from_mode(0o755))?;
        }
        Ok(Self { ours })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            // It existed a moment ago; if it is gone, the goal is reached.
            let _ = fs::remove_file(POLICY);
        }
    }
}
