//! Records that consumers have parked, on each database.

use serde_json::{Value, json};

use super::shop::{Kind, Shop};

/// The consumers' tables, with two records of the key `k` and a dead letter.
pub(super) async fn park(shop: &Shop, kind: Kind) {
    shop.execute(match kind {
        Kind::Postgres => include_str!("../../../../../migrations/consumer/postgres/0000consumer01_progress/up.sql"),
        Kind::Mariadb => include_str!("../../../../../migrations/consumer/mysql/0000consumer01_progress/up.sql"),
        Kind::Sqlite => include_str!("../../../../../migrations/consumer/sqlite/0000consumer01_progress/up.sql"),
    })
    .await;
    let key = if kind == Kind::Postgres { "'\\x6b'" } else { "X'6b'" };
    let (column, at) = if kind == Kind::Sqlite { (", parked_at", ", 1700000000000") } else { ("", "") };
    for (offset, key, holds_key, consumer) in
        [(7, key, 1, "billing"), (8, key, 1, "billing"), (9, "NULL", 0, "shipping")]
    {
        shop.execute(&format!(
            "INSERT INTO outbox_parked (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms,
               holds_key, error{column})
             VALUES ('{consumer}', 'orders', '0', {offset}, {key}, '[[\"tenant\",\"7\"]]', NULL, -1, {holds_key}, 'no address'{at})"
        ))
        .await;
    }
}

fn items(list: Value) -> Vec<Value> {
    list["items"].as_array().expect("a list").clone()
}

async fn parked_records_are_listed_released_and_discarded(kind: Kind) {
    let Some(shop) = Shop::fresh(kind).await else { return };
    let missing = shop.run(&["parked", "list"]);
    assert_eq!(missing.exit, 1);
    assert!(missing.stderr.contains("0000consumer01_progress"), "{}", missing.stderr);

    park(&shop, kind).await;
    let run = |args: &[&str]| shop.run(&[args, &["--output", "json", "--actor", "alice"]].concat());
    let all = items(run(&["parked", "list"]).json());
    let offsets: Vec<_> = all.iter().map(|record| record["offset"].as_i64()).collect();
    assert_eq!(offsets, [Some(7), Some(8), Some(9)]);
    assert_eq!((&all[0]["key"], &all[0]["holds_key"], &all[2]["key"]), (&json!("k"), &json!(true), &Value::Null));
    assert_eq!(items(run(&["parked", "list", "--consumer", "shipping"]).json()).len(), 1);
    let unknown = shop.run(&["parked", "list", "--consumer", "bilings"]);
    assert!(unknown.exit == 1 && unknown.stderr.contains(r#"["billing", "shipping"]"#), "{unknown:?}");
    assert_eq!(run(&["parked", "list", "--limit", "2"]).json()["more"], true);
    let table = shop.run(&["parked", "list"]).ok();
    assert!(
        table.contains("orders/0@7") && table.contains("holds its key") && table.contains("dead letter"),
        "{table}"
    );

    let [first, dead] = [0, 2].map(|at: usize| all[at]["id"].to_string());
    let shown = shop.run(&["parked", "show", &first]).ok();
    assert!(shown.contains("tenant: 7") && shown.contains("no address"), "{shown}");
    assert_eq!(run(&["parked", "release", &first, "--dry-run"]).json()["changed"], 1);
    assert_eq!(run(&["parked", "show", &first]).json()["is_released"], false);
    run(&["parked", "release", &first, "--reason", "ticket 17"]).ok();
    assert_eq!(run(&["parked", "show", &first]).json()["is_released"], true);

    assert_eq!(run(&["parked", "discard", &dead]).exit, 2, "it asks");
    run(&["parked", "discard", &dead, "--yes"]).ok();
    assert_eq!(run(&["parked", "show", &dead]).exit, 1);
    let again = run(&["parked", "discard", &dead, "--yes"]);
    assert!(again.exit == 1 && again.stdout.contains("no parked record"), "{again:?}");

    let audit = items(run(&["audit", "--by", "alice"]).json());
    let actions: Vec<_> = audit.iter().map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions, [Some("discard_parked"), Some("release_parked")]);
    let of = &audit[0]["filter"];
    assert_eq!((&of["consumer"], &of["offset"]), (&json!("shipping"), &json!(9)), "{of}");
    assert_eq!(audit[1]["reason"], "ticket 17");
}

#[tokio::test]
async fn parked_records_are_listed_released_and_discarded_on_postgres() {
    parked_records_are_listed_released_and_discarded(Kind::Postgres).await;
}

#[tokio::test]
async fn parked_records_are_listed_released_and_discarded_on_mariadb() {
    parked_records_are_listed_released_and_discarded(Kind::Mariadb).await;
}

#[tokio::test]
async fn parked_records_are_listed_released_and_discarded_on_sqlite() {
    parked_records_are_listed_released_and_discarded(Kind::Sqlite).await;
}
