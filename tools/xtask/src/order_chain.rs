//! `cargo xtask order-chain`: installs what it needs, builds the example's processes and runs them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use xtask::cache;
use xtask::servers::ServerKind;
use xtask::stop::Stop;

use crate::commands::{cargo, run, workspace};
use crate::steps::install;

const SERVERS: [ServerKind; 4] = [ServerKind::Postgres, ServerKind::Mariadb, ServerKind::Kafka, ServerKind::Redis];

/// The arguments of the run.
#[derive(Debug, Clone, Args)]
pub(crate) struct OrderChain {
    /// Of load, and of faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds of load
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Customers at a time
    #[arg(long, default_value_t = 16)]
    customers: u32,
    /// Run without faults
    #[arg(long)]
    calm: bool,
    /// Compare the speed of the shop with that of the same shop without messages, and end
    #[arg(long)]
    ratio: bool,
    /// Build with optimisations, to measure: another build of everything. By default it takes that of the tests
    #[arg(long)]
    release: bool,
}

/// Runs the example, which starts and stops its servers itself.
///
/// # Errors
///
/// It does not build, or a signal asked us to stop.
pub(crate) fn order_chain(args: &OrderChain, stop: &Stop) -> Result<ExitCode> {
    install(&SERVERS, &[], stop)?;
    let mut command = if args.release {
        cargo(&["run", "--quiet", "--release", "--package", "order-chain", "--features", "servers", "--"])
    } else {
        // Cargo builds a package's programs with its tests. Without the tests it would choose other features.
        let mut build =
            cargo(&["test", "--workspace", "--features", "_test", "--test", "order_chain_servers", "--no-run"]);
        if !run(&mut build, stop)? {
            return Ok(ExitCode::FAILURE);
        }
        Command::new(cache::place("debug/order-chain"))
    };
    command.current_dir(workspace());
    for (name, value) in [("--seed", args.seed), ("--seconds", args.seconds), ("--customers", args.customers.into())] {
        command.args([name.to_owned(), value.to_string()]);
    }
    command.args(args.calm.then_some("--calm")).args(args.ratio.then_some("--ratio"));
    // Also removes what a killed run leaves behind. Readable by the databases' own users.
    let folder = tempfile::Builder::new().prefix("outbox-chain-").permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.context("make a folder for this run")?;
    command.env("TMPDIR", folder.path());
    let passed = run(&mut command, stop)?;
    Ok(ExitCode::from(u8::from(!passed)))
}
