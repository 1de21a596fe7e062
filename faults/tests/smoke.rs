//! The harness for a minute, against servers of its own: `cargo xtask test --only faults`.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;
use xtask::parts;
use xtask::servers::{Part, ServerClock};

#[test]
fn some_minutes_of_faults_on_postgres_and_kafka_loses_doubles_and_inverts_nothing() {
    run(&["--minutes", "1.7"]);
}

#[test]
fn a_clock_of_the_database_that_goes_ahead_and_back_loses_and_inverts_nothing() {
    let Some(()) = parts::own(ServerClock::check().map_err(anyhow::Error::new)) else { return };
    run(&["--minutes", "0.7", "--skew"]);
}

/// One after the other: two harnesses on two processors starve each other's applications.
fn run(arguments: &[&str]) {
    static RUNNING: Mutex<()> = Mutex::new(());
    // It starts them itself; this says whether they can be had.
    for part in [Part::Postgres, Part::Kafka] {
        let Some(()) = parts::own(part.check().map_err(anyhow::Error::new)) else { return };
    }
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let results = TempDir::new().expect("a folder");
    let mut harness = Command::new(env!("CARGO_BIN_EXE_faults"));
    harness.args(["--smoke", "--seed", "1", "--results"]).arg(results.path()).args(arguments);
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
