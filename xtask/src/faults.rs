//! `cargo xtask faults`: builds the harness and runs it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use xtask::stop::Stop;

use crate::tools::{cargo, run};

/// What to run, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// The same seed is the same schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long the faults go on, about; a thousand of them take 40 to 60
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Which database; the harness speaks to one so far
    #[arg(long, value_enum, default_value_t = Database::Postgres)]
    database: Database,
    /// A short run: an audit of 5,000 messages is enough, in place of 100,000
    #[arg(long)]
    smoke: bool,
    /// Plant this mistake in the library, under the schedule that shows it; the run then has to fail
    #[arg(long)]
    plant: Option<String>,
    /// The schedule that shows this mistake, without the mistake
    #[arg(long, conflicts_with = "plant")]
    control: Option<String>,
    /// Plant every mistake, each after a control; fails where one is not found
    #[arg(long)]
    plants: bool,
    /// Print the schedule and do nothing
    #[arg(long)]
    dry: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Database {
    Postgres,
}

/// Runs the harness, which starts and ends its servers itself.
///
/// # Errors
///
/// It does not build, or a signal asked for the end.
pub(crate) fn faults(faults: &Faults, stop: &Stop) -> Result<ExitCode> {
    let (seed, minutes) = (faults.seed.to_string(), faults.minutes.to_string());
    let mut command = cargo(&["run", "--quiet", "--package", "diesel-outbox-faults"]);
    if faults.plants || faults.plant.is_some() {
        command.args(["--features", "_planted"]);
    }
    command.args(["--", "--seed", &seed, "--minutes", &minutes]);
    for (flag, is_set) in [("--smoke", faults.smoke), ("--plants", faults.plants), ("--dry", faults.dry)] {
        command.args(is_set.then_some(flag));
    }
    for (flag, mistake) in [("--plant", &faults.plant), ("--control", &faults.control)] {
        command.args(mistake.iter().flat_map(|mistake| [flag, mistake.as_str()]));
    }
    // Also what a harness leaves behind that had to be killed goes with it. Open to the databases' own users.
    let folder = tempfile::Builder::new().prefix("outbox-faults-").permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.context("make a folder for this run")?;
    command.env("TMPDIR", folder.path());
    let passed = run(&mut command, stop, |_| {})?;
    Ok(ExitCode::from(u8::from(!passed)))
}
