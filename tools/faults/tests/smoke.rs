//! Runs the harness for a minute, with its own servers: `cargo xtask test --only faults`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;
use xtask::servers::{ServerClock, ServerKind};
use xtask::test_servers;

#[test]
fn faults_on_postgres_and_kafka_lose_duplicate_and_reorder_nothing() {
    run(&["--minutes", "0.9"]);
}

#[test]
fn a_skewed_database_clock_loses_and_reorders_nothing() {
    let Some(()) = test_servers::own_or_skip(ServerClock::check().map_err(anyhow::Error::new)) else { return };
    run(&["--minutes", "0.7", "--skew"]);
}

/// One after the other: two harnesses on two cores starve each other's applications.
fn run(arguments: &[&str]) {
    static RUNNING: Mutex<()> = Mutex::new(());
    // The harness starts them itself; this checks that they are available.
    for kind in [ServerKind::Postgres, ServerKind::Kafka] {
        let Some(()) = test_servers::own_or_skip(kind.check().map_err(anyhow::Error::new)) else { return };
    }
    let _alone = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let results = TempDir::new().expect("a folder");
    let mut harness = Command::new(env!("CARGO_BIN_EXE_faults"));
    harness.args(["--smoke", "--seed", "1", "--results"]).arg(results.path()).args(arguments);
    let has_passed = harness.env("RUST_LOG", "error,diesel_outbox=warn").status().expect("it runs").success();
    let warnings = || warnings(&results.path().join("run.log"));
    assert!(has_passed, "{}\n{}", warnings(), failures(&results.path().join("run.json")));
}

/// What the applications warned of, but for what they do all the time: the folder goes with the test.
fn warnings(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let is_frequent = |line: &&str| ["kafka_client_warning", "dead_lettered"].iter().any(|event| line.contains(event));
    log.lines().filter(|line| !is_frequent(line)).collect::<Vec<_>>().join("\n")
}

/// Why a run failed: the last lines of CI's output show this, and not the table.
fn failures(report: &Path) -> String {
    let Ok(report) = fs::read_to_string(report) else { return "it wrote no report".to_owned() };
    let report: serde_json::Value = serde_json::from_str(&report).expect("a report");
    format!("{:#}", report["failures"])
}

#[test]
fn the_same_seed_prints_the_same_schedule() {
    for [what, how_much] in [["--minutes", "5"], ["--kills", "150"]] {
        let printed = |seed: &str| {
            let mut harness = Command::new(env!("CARGO_BIN_EXE_faults"));
            harness.args(["--dry", what, how_much, "--seed", seed]).output().expect("it runs").stdout
        };
        assert!(!printed("7").is_empty());
        assert_eq!(printed("7"), printed("7"));
        assert_ne!(printed("7"), printed("8"));
    }
}
