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

/// The arguments of the run.
#[derive(Debug, Clone, Args)]
pub(crate) struct OrderChain {
    /// Of load, and of faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds of load: 60 by default, and 20 for each shop that is measured
    #[arg(long)]
    seconds: Option<u64>,
    /// Customers at a time
    #[arg(long, default_value_t = 16)]
    customers: u32,
    /// Which broker carries the messages; mixed: Kafka the orders, RocketMQ the payment terms
    #[arg(long, default_value = "kafka", value_parser = ["kafka", "rocketmq", "mixed"])]
    broker: String,
    /// Faults by the clock, 1 to 60 a minute, however many are not settled yet; by default each waits for the one before
    #[arg(long, conflicts_with = "calm")]
    faults_per_minute: Option<u32>,
    /// Run without faults
    #[arg(long)]
    calm: bool,
    /// Compare the speed of the shop without messages, with them, and as it is taught, and end. Builds with optimisations
    #[arg(long, conflicts_with_all = ["calm", "faults_per_minute"])]
    ratios: bool,
    /// Rounds of the comparison
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Build with optimisations: another build of everything. By default it takes that of the tests
    #[arg(long)]
    release: bool,
}

impl OrderChain {
    fn servers(&self) -> Vec<ServerKind> {
        let brokers: &[ServerKind] = match self.broker.as_str() {
            "kafka" => &[ServerKind::Kafka],
            "rocketmq" => &[ServerKind::Rocketmq],
            _ => &[ServerKind::Kafka, ServerKind::Rocketmq],
        };
        [ServerKind::Postgres, ServerKind::Mariadb, ServerKind::Redis]
            .into_iter()
            .chain(brokers.iter().copied())
            .collect()
    }

    /// What the program is given.
    fn passed_on(&self) -> Vec<String> {
        let mut given = vec![format!("--seed={}", self.seed), format!("--customers={}", self.customers)];
        given.extend([format!("--broker={}", self.broker), format!("--rounds={}", self.rounds)]);
        given.extend(self.seconds.map(|seconds| format!("--seconds={seconds}")));
        given.extend(self.faults_per_minute.map(|faults| format!("--faults-per-minute={faults}")));
        given.extend(self.calm.then(|| "--calm".to_owned()));
        given.extend(self.ratios.then(|| "--ratios".to_owned()));
        given
    }

    /// What is measured is built as it would be in production.
    fn is_optimised(&self) -> bool {
        self.release || self.ratios
    }
}

/// Runs the example, which starts and stops its servers itself.
///
/// # Errors
///
/// It does not build, or a signal asked us to stop.
pub(crate) fn order_chain(args: &OrderChain, stop: &Stop) -> Result<ExitCode> {
    install(&args.servers(), &[], stop)?;
    let mut command = if args.is_optimised() {
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
    command.current_dir(workspace()).args(args.passed_on());
    // Also removes what a killed run leaves behind. Readable by the databases' own users.
    let folder = tempfile::Builder::new().prefix("outbox-chain-").permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.context("make a folder for this run")?;
    command.env("TMPDIR", folder.path());
    let passed = run(&mut command, stop)?;
    Ok(ExitCode::from(u8::from(!passed)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        chain: OrderChain,
    }

    fn chain(arguments: &[&str]) -> OrderChain {
        Line::try_parse_from(["order-chain"].iter().chain(arguments)).expect("legal arguments").chain
    }

    #[test]
    fn the_broker_decides_which_servers_are_installed() {
        let has = |broker: &str, kind| chain(&["--broker", broker]).servers().contains(&kind);
        for (broker, kafka, rocketmq) in [("kafka", true, false), ("rocketmq", false, true), ("mixed", true, true)] {
            assert_eq!(
                (has(broker, ServerKind::Kafka), has(broker, ServerKind::Rocketmq)),
                (kafka, rocketmq),
                "{broker}"
            );
        }
        assert!(Line::try_parse_from(["order-chain", "--broker", "pigeon"]).is_err());
    }

    #[test]
    fn what_is_measured_is_optimised_and_the_rest_takes_the_build_of_the_tests() {
        assert!(chain(&["--ratios"]).is_optimised());
        assert!(!chain(&["--seconds", "720", "--faults-per-minute", "27"]).is_optimised());
        let dense = chain(&["--seconds", "720", "--faults-per-minute", "27"]).passed_on();
        assert!(dense.contains(&"--seconds=720".to_owned()) && dense.contains(&"--faults-per-minute=27".to_owned()));
        assert!(Line::try_parse_from(["order-chain", "--ratios", "--calm"]).is_err());
    }
}
