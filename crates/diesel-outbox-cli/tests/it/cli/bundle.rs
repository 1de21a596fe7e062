//! A support bundle shows nothing of what may be secret.

use std::fs;
use std::time::Duration;

use diesel_outbox::Message;

use super::program::run;
use super::shop::{Kind, Shop, order, payment};

const SECRET: &str = "swordfish";

/// The secret wherever somebody may write one.
fn secret(message: Message) -> Message {
    message.key(SECRET).kind(SECRET).header(SECRET, SECRET).payload_bytes(format!(r#"{{"token":"{SECRET}"}}"#))
}

/// The address with the secret as a setting that the server ignores, or in the folder of the file.
fn address(shop: &Shop) -> String {
    match shop.url.as_str() {
        url if url.starts_with("postgres") => format!("{url}?application_name={SECRET}"),
        url => url.to_owned(),
    }
}

async fn bundle(kind: Kind) {
    let Some(shop) = Shop::fresh(kind).await else { return };
    shop.failed(&secret(order("1")), SECRET).await;
    shop.enqueue(&secret(order("1")).delay(Duration::from_secs(60))).await;
    shop.dead_letter(&secret(order("1")), &format!("refused: {SECRET}")).await;
    shop.dead_letter(&secret(order("1")), SECRET).await;
    shop.sent(&secret(order("1"))).await;
    let head = shop.enqueue(&secret(payment("a"))).await;
    shop.enqueue(&secret(payment("a"))).await;
    shop.failed_in_lane(SECRET, head, SECRET).await;
    let act = ["dead", "purge", "--key", SECRET, "--topic", "invoices", "--yes", "--actor", SECRET, "--reason", SECRET];
    shop.run(&act).ok();
    shop.run(&["dead", "redrive", "--dead-reason", "refused", "--key", SECRET, "--actor", SECRET, "--reason", SECRET])
        .ok();
    shop.dead_letter(&secret(order("1")), &format!("attempts: {SECRET}")).await;

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bundle.json").to_str().expect("a plain path").to_owned();
    let url = address(&shop);
    let args = ["support-bundle", "--file", &file, "--actor", SECRET, "--reason", SECRET, "--output", "json"];
    let written = run(&url, &args);
    assert!(!written.stdout.contains(SECRET) && !written.stderr.contains(SECRET), "{written:?}");
    assert_eq!(written.exit, 0, "{}", written.stderr);
    let text = fs::read_to_string(&file).expect("the bundle");
    assert!(!text.contains(SECRET), "{text}");
    for encoded in ["c3dvcmRmaXNo", "115, 119", "73776f7264"] {
        assert!(!text.contains(encoded), "{text}");
    }
    // It is no empty bundle, either.
    let bundle: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let topics = bundle["topics"].as_array().expect("topics");
    let of = |name: &str| topics.iter().find(|topic| topic["status"]["topic"] == name).expect(name);
    assert_eq!(of("orders")["retrying"]["read"][0]["errors"][0][1], "record", "{text}");
    assert_eq!(of("orders")["dead"]["read"].as_array().map(Vec::len), Some(2), "{text}");
    assert_eq!(of("payments")["blocked_keys"]["read"][0]["behind"]["count"], 1, "{text}");
    assert!(text.contains("redrive_all") && text.contains("another") && text.contains("attempts"), "{text}");

    let again = run(&url, &["support-bundle", "--file", &file]);
    assert!(again.exit == 1 && again.stderr.contains("cannot be written"), "it overwrites nothing: {again:?}");
    let piped = run(&url, &["support-bundle", "--file", "-"]).json();
    assert_eq!(piped["topics"].as_array().map(Vec::len), Some(topics.len()));
}

#[tokio::test]
async fn a_bundle_leaks_no_planted_secret_on_postgres() {
    bundle(Kind::Postgres).await;
}

#[tokio::test]
async fn a_bundle_leaks_no_planted_secret_on_mariadb() {
    bundle(Kind::Mariadb).await;
}

#[tokio::test]
async fn a_bundle_leaks_no_planted_secret_on_sqlite() {
    bundle(Kind::Sqlite).await;
}
