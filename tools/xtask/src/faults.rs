//! `cargo xtask faults`: builds the harness and runs it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use xtask::FaultArgs;
use xtask::stop::Stop;

use crate::commands::{cargo, run};

/// Runs the harness, which starts and stops its servers itself.
///
/// # Errors
///
/// It does not build, or a signal asked us to stop.
pub(crate) fn faults(faults: &FaultArgs, stop: &Stop) -> Result<ExitCode> {
    let mut command = cargo(&["run", "--quiet", "--package", "diesel-outbox-faults"]);
    if faults.needs_injected_bugs() {
        command.args(["--features", "_injected_bugs"]);
    }
    command.arg("--").args(faults.to_arguments());
    // Also removes what a killed harness leaves behind. Readable by the databases' own users.
    let folder = tempfile::Builder::new().prefix("outbox-faults-").permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.context("make a folder for this run")?;
    command.env("TMPDIR", folder.path());
    let passed = run(&mut command, stop)?;
    Ok(ExitCode::from(u8::from(!passed)))
}
