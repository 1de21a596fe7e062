//! The exit codes, as they are written down.

use super::program::run;
use super::shop::{Kind, Shop, order, payment};

#[tokio::test]
async fn wrong_arguments_end_with_2_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    for args in [
        &["no-such-command"][..],
        &["status", "--output", "xml"],
        &["live", "show", "no-uuid"],
        &["live", "list", "--limit", "0"],
        &["dead", "list", "--since", "yesterday"],
        &["dead", "redrive"],
        &["dead", "redrive", "0190b2a0-0000-7000-8000-000000000000", "--topic", "orders"],
        &["dead", "redrive", "0190b2a0-0000-7000-8000-000000000000", "--canary"],
        &["dead", "purge"],
        &["history", "list", "--topic", "orders"],
        &["pause"],
        &["verify", "--topic", "orders"],
        &["verify", "--kafka", "127.0.0.1:1"],
        &["verify", "--topic", "orders", "--kafka", "127.0.0.1:1", "--processed-within", "1m"],
        &["verify", "--topic", "orders", "--processed-within", "1m", "--since", "2000-01-02", "--until", "2000-01-01"],
        &["migrate", "sql", "0000outbox99"],
        &["status", "--statement-timeout", "soon"],
        &["status", "--prefix", "Robert'); DROP"],
        &["status", "--transaction-pooling"],
        &["live", "cancel", "0190b2a0-0000-7000-8000-000000000000"],
        &["migrate", "down"],
    ] {
        let ran = shop.run(args);
        assert_eq!((ran.exit, ran.stdout.as_str()), (2, ""), "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty());
    }
}

#[test]
fn help_and_version_end_with_0() {
    for args in [&["--help"][..], &["dead", "redrive", "--help"], &["--version"]] {
        let ran = run("", args);
        assert_eq!((ran.exit, ran.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!ran.stdout.is_empty());
    }
    let help = run("", &["--help"]).ok();
    for command in [
        "status",
        "check",
        "topics",
        "lanes",
        "keys",
        "live",
        "dead",
        "history",
        "parked",
        "verify",
        "pause",
        "resume",
        "migrate",
        "audit",
        "tail",
        "web",
        "support-bundle",
        "completions",
        "Exit codes",
    ] {
        assert!(help.contains(command), "{command} is not in {help}");
    }
}

#[tokio::test]
async fn a_check_ends_with_what_it_found_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let check = |args: &[&str]| shop.run(&[&["check"], args].concat()).exit;
    assert_eq!(check(&[]), 0, "nothing is wrong with an empty outbox");
    shop.enqueue(&order("1")).await;
    assert_eq!(check(&[]), 0, "it has just become due");
    shop.execute("UPDATE outbox_messages SET due_at = due_at - 600000").await;
    assert_eq!(check(&[]), 3, "nobody has taken it for ten minutes");
    assert_eq!(check(&["--overdue-max", "1h"]), 0);
    shop.run(&["pause", "orders"]).ok();
    assert_eq!(check(&[]), 0, "somebody wants it so");
    assert_eq!(check(&["--strict"]), 3);
    shop.run(&["resume", "orders"]).ok();
    shop.dead_letter(&order("2"), "refused: no").await;
    assert_eq!(check(&["--overdue-max", "1h"]), 3);
    assert_eq!(check(&["--overdue-max", "1h", "--dead-max", "1"]), 0);
}

/// What cannot be looked at is not fine.
#[tokio::test]
async fn a_check_that_cannot_tell_ends_with_4_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let head = shop.enqueue(&payment("a")).await;
    shop.failed_in_lane("a", head, "no").await;
    assert_eq!(shop.run(&["check"]).exit, 3, "a key is blocked");
    // Its column is gone, so the statement about it fails.
    shop.execute("ALTER TABLE outbox_lanes RENAME COLUMN quiet_until TO quiet").await;
    let ran = shop.run(&["check"]);
    assert!(ran.exit == 4 && ran.stdout.contains("cannot tell"), "{ran:?}");
}

/// A canary that halts has found something wrong: here no relay runs.
#[tokio::test]
async fn a_canary_that_halts_ends_with_3_on_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    for key in ["1", "2", "3"] {
        shop.dead_letter(&order(key), "refused: no").await;
    }
    let ran = shop.run(&[
        "dead",
        "redrive",
        "--topic",
        "orders",
        "--canary=1",
        "--outcome-within",
        "50ms",
        "--output",
        "json",
    ]);
    assert_eq!(ran.exit, 3, "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&report["steps"][0]["redriven"], report["steps"].as_array().map(Vec::len)), (&1.into(), Some(1)));
    assert!(report["halt"]["timed_out"].is_object(), "{report}");
    assert_eq!(shop.admin().topics().await.expect("topics")[1].dead.count, 2, "the others are still dead");
}
