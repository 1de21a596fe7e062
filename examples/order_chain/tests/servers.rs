//! The chain on real servers for a minute, each part a process, with faults.

use std::process::Command;

use xtask::servers::ServerKind;
use xtask::test_servers::own_or_skip;

#[test]
fn a_minute_of_faults_on_postgres_mariadb_kafka_and_redis_ends_equal() {
    // The driver starts them itself; this checks that they are available.
    for kind in [ServerKind::Postgres, ServerKind::Mariadb, ServerKind::Kafka, ServerKind::Redis] {
        let Some(()) = own_or_skip(kind.check().map_err(Into::into)) else { return };
    }
    let mut driver = Command::new(env!("CARGO_BIN_EXE_order-chain"));
    driver.args(["--seed", "1", "--seconds", "60", "--customers", "8"]);
    assert!(driver.status().expect("it runs").success(), "see its report");
}
