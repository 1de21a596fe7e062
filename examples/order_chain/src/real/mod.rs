//! The chain on PostgreSQL, MariaDB, Redis and Kafka: each part is a process, and a driver kills and stops all of them.

mod client;
mod driver;
mod faults;
mod fleet;
mod part;
mod ratio;
mod servers;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};

use crate::Failure;

/// The variable with the configuration of a part's process.
const CONFIG: &str = "ORDER_CHAIN_PART";

/// Where everything is; enough for any process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Places {
    /// The shop's database.
    pub postgres: String,
    /// The services' databases.
    pub mariadb: String,
    /// The cache.
    pub redis: String,
    /// The broker.
    pub kafka: String,
    /// Coupons from 1 to this.
    pub coupons: i64,
    /// When an unpaid order is closed.
    pub payment_term: Duration,
    /// When a reservation without an order is looked into.
    pub sweep_after: Duration,
    /// Whether anybody is told of orders.
    pub has_messages: bool,
}

/// Runs customers against the chain, kills and stops everything by a seed, and compares every place in the end
#[derive(Debug, Clone, Parser)]
#[command(name = "order-chain")]
pub struct Arguments {
    /// Of load, and of faults
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Seconds of load
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Customers at a time
    #[arg(long, default_value_t = 16)]
    pub customers: i64,
    /// Run without faults
    #[arg(long)]
    pub calm: bool,
    /// Compare the speed of the shop with that of the same shop without messages, and end
    #[arg(long)]
    pub ratio: bool,
}

/// Runs a part, if the environment says so, and else the driver.
///
/// # Errors
/// Returns an error if something cannot start, or does not end.
pub async fn main() -> Result<ExitCode, Failure> {
    if let Ok(config) = std::env::var(CONFIG) {
        part::run(serde_json::from_str(&config)?).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = Arguments::parse();
    if arguments.ratio {
        ratio::run(&arguments).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_right = driver::run(&arguments).await?;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
