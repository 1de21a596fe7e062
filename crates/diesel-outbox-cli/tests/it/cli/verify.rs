//! `verify` against a real broker, and killed in the middle.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use diesel_outbox::store::SqliteStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{Message, MessageId, Outbox, Topic};
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::program::program;
use super::shop::{Kind, Shop, order};

const DEADLINE: Duration = Duration::from_secs(60);

/// Messages of a topic of their own, sent by a relay.
async fn sent(shop: &Shop, bootstrap: &str, topic: &str, count: usize) -> Vec<MessageId> {
    let outbox = Outbox::builder().topic(Topic::new(topic).keep_sent_days(30)).allow_outside_transaction();
    let outbox = outbox.build().expect("build");
    let kafka = KafkaTransport::builder(KafkaConfig::new(bootstrap))
        .create_topic(KafkaTopic::new(topic).partitions(2).replication(1));
    let store = SqliteStore::connect(shop.url.trim_start_matches("sqlite:")).expect("a path");
    let relay = outbox.relay().store(store).transport(kafka.build().expect("a transport"));
    let relay = relay.start().await.expect("start");
    let mut messages = Vec::new();
    for number in 0..count {
        let message = Message::to(topic).kind("order.placed").key(number.to_string()).payload_bytes("{}");
        messages.push(shop.enqueue_by(&outbox, &message).await);
    }
    let (admin, end) = (shop.admin(), Instant::now() + DEADLINE);
    while admin.count_sent(topic, count).await.expect("count").sent < count {
        assert!(Instant::now() < end, "not sent within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    relay.shutdown(DEADLINE).await;
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verification_ends_with_what_it_found_sqlite() {
    let Some(bootstrap) = test_servers::shared_or_skip(ServerKind::Kafka) else { return };
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    let topic = format!("verified-{}", MessageId::new());
    let messages = sent(&shop, &bootstrap, &topic, 3).await;
    let verify = |more: &[&str]| {
        shop.run(&[&["verify", "--topic", &topic, "--kafka", &bootstrap, "--output", "json"], more].concat())
    };
    let report = verify(&["--since", "1h"]).json();
    assert_eq!((&report["compared"]["matched"], &report["cannot_tell"]), (&3.into(), &serde_json::json!([])));

    let hex = messages[1].as_uuid().simple();
    shop.execute(&format!("DELETE FROM outbox_history WHERE message_id = x'{hex}'")).await;
    let ran = verify(&[]);
    assert_eq!(ran.exit, 3, "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let finding = &report["findings"][0];
    assert_eq!((&finding["verdict"], &finding["message_id"]), (&"phantom".into(), &messages[1].to_string().into()));
    assert!(finding["record"]["offset"].is_number() && finding["record"]["partition"].is_string(), "{finding}");
    let shown = shop.run(&["verify", "--topic", &topic, "--kafka", &bootstrap]);
    assert!(shown.exit == 3 && shown.stdout.contains("something is wrong"), "{shown:?}");
    assert!(shown.stdout.contains("phantom") && shown.stdout.contains("no table has"), "{shown:?}");

    shop.execute("DELETE FROM outbox_history").await;
    shop.enqueue_by(
        &Outbox::builder().topic(Topic::new(topic.as_str())).allow_outside_transaction().build().expect("build"),
        &Message::to(topic.as_str()),
    )
    .await;
    let ran = verify(&[]);
    assert!(ran.exit == 4 && ran.stdout.contains("history_not_kept"), "{ran:?}");
    let nowhere = shop.run(&["verify", "--topic", "order", "--kafka", &bootstrap]);
    assert!(nowhere.exit == 1 && nowhere.stderr.contains(&topic), "it lists the known ones: {nowhere:?}");
    let missing = shop.run(&["verify", "--topic", &topic, "--kafka", &bootstrap, "--kafka-setting", "no.such=1"]);
    assert!(missing.exit == 4, "a setting of no consumer is left out: {missing:?}");
}

/// Killed while it has files with what it sorts: they had no names, so nothing is left.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_killed_verification_leaves_nothing_behind_sqlite() {
    let shop = Shop::fresh(Kind::Sqlite).await.expect("a file");
    shop.sent(&order("1")).await;
    let rest = "id, topic, lane, key, kind, headers, payload, epoch, attempts, failures, errors, created_at, sent_at, falls_on, \
                awaits_processing";
    // More than are sorted in the least memory.
    shop.execute(&format!(
        "INSERT INTO outbox_history (message_id, {rest}) \
         WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50000) \
         SELECT randomblob(16), {rest} FROM n, outbox_history"
    ))
    .await;
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, folder) =
        (silent.local_addr().expect("an address").to_string(), tempfile::tempdir().expect("a folder"));
    let mut command = program(&shop.url, &["verify", "--topic", "orders", "--kafka", &address, "--memory", "1"]);
    let mut process = command.env("TMPDIR", folder.path()).spawn().expect("run the program");
    let end = Instant::now() + DEADLINE;
    while open_files(process.id(), folder.path()) == 0 {
        assert!(process.try_wait().expect("its state").is_none(), "it has ended");
        assert!(Instant::now() < end, "it has no file within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    process.kill().expect("kill -9");
    process.wait().expect("reap");
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

/// Files of a process that are, or were, in a folder.
#[cfg(target_os = "linux")]
fn open_files(process: u32, folder: &Path) -> usize {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return 0 };
    let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    links.filter(|link| link.starts_with(folder)).count()
}
