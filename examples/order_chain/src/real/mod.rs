//! The chain on PostgreSQL, MariaDB, Redis, and Kafka or RocketMQ: each part is a process, and a driver kills and stops all of them.

mod client;
mod cpu;
mod driver;
mod faults;
mod fleet;
mod part;
mod ratios;
mod servers;
mod transports;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::broker::Brokers;

/// The variable with the configuration of a part's process.
const CONFIG: &str = "ORDER_CHAIN_PART";
/// How long there is load by default, and how long each shop is measured.
const SECONDS: u64 = 60;
const SECONDS_MEASURED: u64 = 20;

/// Where everything is; enough for any process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Places {
    /// The shop's database.
    pub postgres: String,
    /// The services' databases.
    pub mariadb: String,
    /// The cache.
    pub redis: String,
    /// Which broker carries a topic.
    pub brokers: Brokers,
    /// Its address; empty if it is not used.
    pub kafka: String,
    /// The address of its name server; empty if it is not used.
    pub rocketmq: String,
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
    /// Seconds of load: 60 by default, and 20 for each shop that is measured
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Customers at a time
    #[arg(long, default_value_t = 16)]
    pub customers: i64,
    /// Which broker carries the messages; mixed: Kafka the orders, RocketMQ the payment terms
    #[arg(long, value_enum, default_value_t)]
    pub broker: Brokers,
    /// Faults by the clock, however many are not settled yet; by default each fault waits for the one before
    #[arg(long, conflicts_with = "calm", value_parser = clap::value_parser!(u32).range(1..=60))]
    pub faults_per_minute: Option<u32>,
    /// Run without faults
    #[arg(long)]
    pub calm: bool,
    /// Compare the speed of the shop without messages, with them, and as it is taught, and end
    #[arg(long, conflicts_with_all = ["calm", "faults_per_minute"])]
    pub ratios: bool,
    /// Rounds of the comparison
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
}

impl Arguments {
    fn lasts(&self) -> Duration {
        let usual = if self.ratios { SECONDS_MEASURED } else { SECONDS };
        Duration::from_secs(self.seconds.unwrap_or(usual))
    }
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
    if arguments.ratios {
        ratios::run(&arguments).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_right = driver::run(&arguments).await?;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
