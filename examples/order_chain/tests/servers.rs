//! The chain on real servers, each part a process, with faults.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use xtask::servers::ServerKind;
use xtask::test_servers::own_or_skip;

/// Two chains at once would be too much for two processors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the driver, which starts the servers itself; this checks that they are available.
fn ends_equal(brokers: &[ServerKind], arguments: &[&str]) {
    for kind in [ServerKind::Postgres, ServerKind::Mariadb, ServerKind::Redis].iter().chain(brokers) {
        let Some(()) = own_or_skip(kind.check().map_err(Into::into)) else { return };
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut driver = Command::new(env!("CARGO_BIN_EXE_order-chain"));
    driver.args(["--customers", "8"]).args(arguments);
    assert!(driver.status().expect("it runs").success(), "see its report");
}

#[test]
fn a_minute_of_faults_on_postgres_mariadb_kafka_and_redis_ends_equal() {
    ends_equal(&[ServerKind::Kafka], &["--seed", "1", "--seconds", "60"]);
}

/// The test above waits for each fault to settle. Here faults come by the clock, and others are still open.
#[test]
fn faults_by_the_clock_on_kafka_and_rocketmq_by_topic_end_equal() {
    // By this seed the brokers are hit, and PostgreSQL is stopped: `real::faults` checks that.
    let faults = ["--seed", "137149813", "--seconds", "30", "--faults-per-minute", "12"];
    let arguments = [["--broker", "mixed"].as_slice(), &faults].concat();
    ends_equal(&[ServerKind::Kafka, ServerKind::Rocketmq], &arguments);
}
