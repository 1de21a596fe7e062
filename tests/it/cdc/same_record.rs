//! A consumer cannot tell Debezium's record from the relay's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel::connection::Connection as _;
use diesel_outbox::testing::StoredMessage;
use diesel_outbox::transport::header::MESSAGE_ID;
use diesel_outbox::{Message, Outbox};
use xtask::servers::{ServerKind, java};
use xtask::test_servers;

use super::Bed;
use crate::consumer::bed::wait_until;
use crate::transport::broker;

/// One with everything, one with headers that are hard to hold, a tombstone, and one without a key.
fn enqueue(bed: &Bed, outbox: &Outbox) -> usize {
    let message = || Message::to(bed.topic.clone()).key("客户 7");
    let messages = [
        message().kind("order.placed").header("source", "shop").payload_bytes(r#"{"total_cents":1000}"#),
        message()
            .header("twice", "a")
            .header("twice", "b")
            .header("empty", "")
            .header("raw", [0, 0xff])
            .payload_bytes([0, 159]),
        message(),
        Message::to(bed.topic.clone()).payload_bytes("no key"),
    ];
    let mut conn = bed.conn();
    conn.transaction(|conn| messages.iter().try_for_each(|message| outbox.enqueue(conn, message).map(drop)))
        .expect("commit");
    messages.len()
}

/// By message id: the partition, if there is a key, and the record but for its time of sending.
fn copies(records: Vec<broker::Placed>) -> BTreeMap<Vec<u8>, Vec<(Option<i32>, StoredMessage)>> {
    let mut copies = BTreeMap::<_, Vec<_>>::new();
    for (partition, mut record) in records {
        let id = record.headers.iter().find(|(name, _)| name == MESSAGE_ID).expect("a message id").1.clone();
        record.timestamp = None;
        copies.entry(id).or_default().push((record.key.is_some().then_some(partition), record));
    }
    copies
}

/// What a consumer in Java prints of each message, but for its time of sending, by message id.
fn printed(bed: &Bed, records: usize) -> Option<BTreeMap<String, Vec<Vec<String>>>> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/KafkaReader.java");
    let arguments = [bed.bootstrap.as_str(), &bed.topic, &records.to_string()];
    let text = test_servers::own_or_skip(java::run_source(ServerKind::Kafka, &program, &arguments))?;
    let mut printed = BTreeMap::<_, Vec<_>>::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("message\t")) {
        let fields = line.split('\t').filter(|field| !field.starts_with("timestamp=")).map(str::to_owned);
        let fields: Vec<_> = fields.collect();
        let id = fields.iter().find_map(|field| field.strip_prefix("property outbox-message-id="));
        printed.entry(id.expect("a message id").to_owned()).or_default().push(fields);
    }
    Some(printed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_sees_the_same_record_by_debezium_and_by_the_relay() {
    let Some(bed) = Bed::open().await else { return };
    let outbox = bed.outbox();
    let connector = bed.connect();
    let sent = enqueue(&bed, &outbox);
    wait_until("Debezium's records", || {
        connector.check().expect("the connector runs");
        broker::read(&bed.bootstrap, &bed.topic).len() == sent
    });
    // Debezium removes no rows, so the relay finds the same ones.
    let relay = bed.relay(&outbox).await;
    bed.wait_until_empty();
    assert!(relay.shutdown(Duration::from_secs(30)).await.is_clean());
    let copies = copies(broker::read(&bed.bootstrap, &bed.topic));
    assert_eq!(copies.len(), sent);
    for copies in copies.values() {
        let [by_debezium, by_relay] = copies.as_slice() else { panic!("a copy of each: {copies:#?}") };
        assert_eq!(by_debezium, by_relay);
    }
    let Some(printed) = printed(&bed, 2 * sent) else { return };
    assert_eq!(printed.len(), sent);
    for copies in printed.values() {
        let [by_debezium, by_relay] = copies.as_slice() else { panic!("a copy of each: {copies:#?}") };
        assert_eq!(by_debezium, by_relay);
    }
    let (name, raw) = ("property raw=", BASE64.encode([0, 0xff]));
    assert!(
        printed.values().flatten().flatten().any(|field| *field == format!("{name}{raw}")),
        "binary headers arrive"
    );
}
