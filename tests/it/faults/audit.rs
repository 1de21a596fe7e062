//! Reads the topic to its end and compares it with what was committed.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use diesel_outbox::transport::header;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use uuid::Uuid;

use super::shop::{DEADLINE, Shop};

/// What an audit found. Losses and phantoms fail it at once.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) committed: usize,
    pub(super) delivered: usize,
    pub(super) dead_letters: usize,
    pub(super) duplicates: usize,
    /// Those messages that are in the topic more than once, with the same bytes.
    pub(super) duplicate_ids: HashSet<Uuid>,
    /// Bytes of payload, each message once.
    pub(super) bytes: usize,
}

/// Compares the topic, the orders and the dead letters of a shop whose table is drained.
pub(super) async fn audit(shop: &Shop) -> Audit {
    let dead = shop.dead_letters().await.into_iter().map(|(id, _)| id).collect();
    compare(shop, shop.committed().await, dead).await
}

/// Compares the topic with these orders and dead letters.
pub(super) async fn compare(shop: &Shop, committed: Vec<Uuid>, dead: Vec<Uuid>) -> Audit {
    let (bootstrap, topic) = (shop.bootstrap.clone(), shop.topic.clone());
    let copies = tokio::task::spawn_blocking(move || read_to_the_end(&bootstrap, &topic)).await.unwrap();
    let committed: HashSet<Uuid> = committed.into_iter().collect();
    let dead: HashSet<Uuid> = dead.into_iter().collect();
    for id in &committed {
        assert!(copies.contains_key(id) || dead.contains(id), "lost: {id}");
    }
    for id in copies.keys().chain(&dead) {
        assert!(committed.contains(id), "never committed: {id}");
    }
    for (id, payloads) in &copies {
        assert!(payloads.iter().all(|payload| payload == &payloads[0]), "the copies of {id} differ");
    }
    let duplicate_ids: HashSet<Uuid> =
        copies.iter().filter(|(_, payloads)| payloads.len() > 1).map(|(id, _)| *id).collect();
    let bytes = copies.values().map(|payloads| payloads[0].len()).sum();
    let (committed, delivered, dead) = (committed.len(), copies.len(), dead.len());
    Audit { committed, delivered, dead_letters: dead, duplicates: duplicate_ids.len(), duplicate_ids, bytes }
}

/// Every payload in the topic, by message id.
fn read_to_the_end(bootstrap: &str, topic: &str) -> HashMap<Uuid, Vec<Vec<u8>>> {
    let mut copies: HashMap<Uuid, Vec<Vec<u8>>> = HashMap::new();
    for Record { id, payload, .. } in read_records(bootstrap, topic) {
        copies.entry(id).or_default().push(payload);
    }
    copies
}

/// A record of the topic.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: Uuid,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: String,
    pub(super) payload: Vec<u8>,
}

/// Every committed record in the topic, those of a partition in its order.
pub(super) fn read_records(bootstrap: &str, topic: &str) -> Vec<Record> {
    read_isolated(bootstrap, topic, "read_committed")
}

/// How many records there are, those of transactions included that never were committed.
pub(super) fn count_written(bootstrap: &str, topic: &str) -> usize {
    read_isolated(bootstrap, topic, "read_uncommitted").len()
}

/// The message of each record in a topic, by the order of their ids: what is there twice is here twice.
pub(super) async fn arrived(bootstrap: &str, topic: &str) -> Vec<Uuid> {
    let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
    let records = tokio::task::spawn_blocking(move || read_records(&bootstrap, &topic)).await.unwrap();
    let mut ids: Vec<Uuid> = records.into_iter().map(|record| record.id).collect();
    ids.sort_unstable();
    ids
}

fn read_isolated(bootstrap: &str, topic: &str, isolation: &str) -> Vec<Record> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "audit")
        .set("fetch.message.max.bytes", "4000000")
        .set("enable.partition.eof", "true")
        .set("isolation.level", isolation)
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).unwrap();
    let (mut assignment, mut left) = (TopicPartitionList::new(), HashSet::new());
    for partition in metadata.topics()[0].partitions() {
        left.insert(partition.id());
        assignment.add_partition_offset(topic, partition.id(), Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let mut records = Vec::new();
    let end = Instant::now() + DEADLINE;
    while !left.is_empty() {
        assert!(Instant::now() < end, "partitions {left:?} of {topic} are still unread");
        let record = match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(record)) => record,
            // The marks of transactions have offsets, too: the end is where the broker says so.
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                left.remove(&partition);
                continue;
            }
            Some(Err(_)) | None => continue,
        };
        let headers = record.headers().unwrap();
        let id = headers.iter().find(|header| header.key == header::MESSAGE_ID).unwrap().value.unwrap();
        let id = std::str::from_utf8(id).unwrap().parse().unwrap();
        let key = String::from_utf8(record.key().unwrap_or_default().to_vec()).unwrap();
        let (partition, offset) = (record.partition(), record.offset());
        records.push(Record { id, partition, offset, key, payload: record.payload().unwrap_or_default().to_vec() });
    }
    records
}
