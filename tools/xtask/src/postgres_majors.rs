//! `cargo xtask test --postgres 14,16,18`: the PostgreSQL suites on other majors than the installed one.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use xtask::servers::{ServerKind, postgres_releases};
use xtask::stop::Stop;

use crate::report::Report;
use crate::shared_servers::SharedServers;
use crate::steps::{Steps, in_ci, install};
use crate::test_args::TestArgs;

/// One major after the other: a machine with two processors is too small for two.
pub(crate) fn test(args: &TestArgs, stop: &Stop) -> Result<Report> {
    // The client libraries, pgbouncer and psql are Debian's for every major.
    install(&[ServerKind::Postgres], &[], stop)?;
    let mut report = Report::default();
    for &major in &args.postgres {
        on(major, &args.on_postgres(), &mut report, stop)?;
    }
    Ok(report)
}

fn on(major: u32, filter: &[&str], report: &mut Report, stop: &Stop) -> Result<()> {
    let suite = format!("postgres {major}");
    let folder = tempfile::Builder::new()
        .prefix("outbox-postgres-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .context("make a folder for a server's programs")?;
    let binaries = match postgres_releases::unpack(major, folder.path()) {
        Ok(binaries) => binaries,
        Err(unavailable) => {
            report.skip(&suite, &unavailable.reason, in_ci());
            return Ok(());
        }
    };
    let shared = SharedServers::start_with(&[ServerKind::Postgres], Some(&binaries))?;
    let mut steps = Steps::new(&shared, stop);
    steps.integration(&suite, true, filter)?;
    report.add(steps.report);
    Ok(())
}
