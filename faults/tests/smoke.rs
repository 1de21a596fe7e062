//! The harness for a minute, against servers of its own: `cargo xtask test --only faults`.

use std::process::Command;

use tempfile::TempDir;
use xtask::parts;
use xtask::servers::Part;

#[test]
fn a_minute_of_faults_on_postgres_and_kafka_loses_doubles_and_inverts_nothing() {
    // It starts them itself; this says whether they can be had.
    for part in [Part::Postgres, Part::Kafka] {
        let Some(()) = parts::own(part.check().map_err(anyhow::Error::new)) else { return };
    }
    let results = TempDir::new().expect("a folder");
    let mut harness = Command::new(env!("CARGO_BIN_EXE_faults"));
    harness.args(["--smoke", "--minutes", "0.7", "--seed", "1", "--results"]).arg(results.path());
    assert!(harness.status().expect("it runs").success(), "see its table");
}

#[test]
fn the_same_seed_prints_the_same_schedule() {
    let printed = |seed: &str| {
        let mut harness = Command::new(env!("CARGO_BIN_EXE_faults"));
        harness.args(["--dry", "--minutes", "5", "--seed", seed]).output().expect("it runs").stdout
    };
    assert!(!printed("7").is_empty());
    assert_eq!(printed("7"), printed("7"));
    assert_ne!(printed("7"), printed("8"));
}
