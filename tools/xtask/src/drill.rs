//! `cargo xtask drill`: installs what it needs, builds the drill and runs it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use xtask::DrillArgs;
use xtask::servers::ServerKind;
use xtask::stop::Stop;

use crate::commands::{cargo, run};
use crate::steps::install;

/// Runs the drill, which starts and stops its servers itself.
///
/// # Errors
///
/// It does not build, or a signal asked us to stop.
pub(crate) fn drill(drill: &DrillArgs, stop: &Stop) -> Result<ExitCode> {
    install(&[ServerKind::Postgres, ServerKind::Kafka, ServerKind::Prometheus], &[], stop)?;
    let mut command = cargo(&["run", "--quiet", "--package", "diesel-outbox-drill", "--"]);
    command.args(drill.to_arguments());
    // Also removes what a killed drill leaves behind. Readable by the database's own user.
    let folder = tempfile::Builder::new().prefix("outbox-drill-").permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.context("make a folder for this run")?;
    command.env("TMPDIR", folder.path());
    let passed = run(&mut command, stop)?;
    Ok(ExitCode::from(u8::from(!passed)))
}
