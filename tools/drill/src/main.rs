//! Faults in a real relay and consumer beside a real PostgreSQL, Kafka and Prometheus. Each alert of `ops/prometheus/rules.yml` is seen to fire, is
//! healed by the commands in its runbook, and is seen to clear. `cargo xtask drill` builds and runs it.
//!
//! One program has three roles: the drill itself; `shop`, the application with the relay and a consumer; and the commands that the runbooks give to
//! services, which the drill's own services obey.

#![expect(clippy::print_stdout, reason = "a command line program reports on its standard output")]

mod alerts;
mod blocks;
mod board;
mod control;
mod drill;
mod faults;
mod http;
mod receiver;
mod rules;
mod services;
mod shop;
mod shop_process;
mod start;
mod tables;
mod wait;
mod world;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::DrillArgs;
use xtask::stop::Stop;

/// The files that operators install.
pub(crate) fn ops() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops")
}

/// Injects the fault of each alert, and heals it with the commands of its runbook
#[derive(Debug, Parser)]
#[command(name = "drill")]
struct Arguments {
    #[command(flatten)]
    drill: DrillArgs,
}

fn main() -> ExitCode {
    let ended = match (std::env::var(shop::CONFIG), std::env::var(control::ADDRESS)) {
        (Ok(config), _) => shop::run(&config).map(|()| true),
        (_, Ok(address)) => control::ask(&address, std::env::args().skip(1).collect()).map(|()| true),
        _ => drill(&Arguments::parse().drill),
    };
    match ended {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn drill(arguments: &DrillArgs) -> Result<bool> {
    drill::run(arguments, &Stop::on_signals()?)
}
