//! The order chain, whole, in one process: deduct stock, create the order, tell everybody, close what is not paid, reconcile. Customers
//! order, requests die at every step, the cache is flushed, the broker goes away; in the end every place agrees. Needs no server, and takes
//! about a minute.
//!
//! ```sh
//! cargo run --example order_chain
//! ```
//!
//! It ends with a report, and with exit code 1 unless stock, orders, coupons and points are equal. With `--seconds 20` and `--seed 7` it runs
//! for that long with other faults; with `--as-taught` it runs the common recipe in such faults, and shows what is wrong afterwards;
//! with `--side-by-side` it runs both in the same faults at the same moments, and prints one report; with `--ratios` it compares their speed.
//! [README.md](README.md) walks through the code, which is in `src/`. `cargo xtask order-chain` runs it with PostgreSQL, MariaDB, Redis, and
//! Kafka or RocketMQ.

use std::process::ExitCode;
use std::time::Duration;

use order_chain::Failure;
use order_chain::embedded::{Settings, ratios, run, side_by_side};
use order_chain::taught;
use tracing_subscriber::EnvFilter;

/// Runs the chain as it is taught instead.
const AS_TAUGHT: &str = "--as-taught";
/// Runs both.
const SIDE_BY_SIDE: &str = "--side-by-side";
/// Compares the speed of both, and of the shop without messages.
const RATIOS: &str = "--ratios";
/// How often, and how long each is measured by default.
const ROUNDS: u32 = 3;
const MEASURED: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    // A death is a panic of a handler, which the library notes, and librdkafka notes each attempt to reach a broker that is away.
    let quiet = "error,diesel_outbox::panic_guard=off,librdkafka=off,rdkafka=off";
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut takes = |flag: &str| {
        let count = arguments.len();
        arguments.retain(|argument| argument != flag);
        arguments.len() < count
    };
    let (is_taught, are_both, are_ratios) = (takes(AS_TAUGHT), takes(SIDE_BY_SIDE), takes(RATIOS));
    let mut begin = Settings::default();
    if are_ratios {
        begin.load = MEASURED;
    }
    let settings = settings(begin, arguments.into_iter())?;
    if are_ratios {
        ratios(&settings, ROUNDS).await?;
        return Ok(ExitCode::SUCCESS);
    }
    if is_taught {
        // It is never right; this shows what is wrong.
        taught::run(&settings).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_right = if are_both { side_by_side(&settings).await? } else { run(&settings).await? };
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn settings(mut settings: Settings, mut arguments: impl Iterator<Item = String>) -> Result<Settings, Failure> {
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--seconds" => settings.load = Duration::from_secs(value.parse()?),
            "--seed" => settings.seed = value.parse()?,
            "--customers" => settings.customers = value.parse()?,
            _ => {
                return Err(format!(
                    "{name} is unknown: there are --seconds, --seed, --customers, {AS_TAUGHT}, {SIDE_BY_SIDE} and {RATIOS}"
                )
                .into());
            }
        }
    }
    Ok(settings)
}
