//! An independent consumer: reads topics to their end, straight from the broker.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use uuid::Uuid;

use crate::app::SENT_BY;
use crate::truth::{Committed, Name};
use crate::wire::Topics;

/// The longest that nothing may come.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest one request may take.
const REQUEST: Duration = Duration::from_secs(15);

/// A record of a topic, as far as the audit looks at it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) name: Option<Name>,
    pub(crate) message_id: Uuid,
    /// When the broker wrote it: milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) sent_by: Option<u32>,
    /// By its place in [`Topics::all`].
    pub(crate) topic: i16,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<String>,
    /// Whether its bytes are those that follow from its name.
    pub(crate) is_whole: bool,
}

impl Record {
    /// Whether it is what was committed.
    pub(crate) fn is_of(&self, row: &Committed) -> bool {
        let is_its = row.message_id.is_none_or(|message_id| message_id == self.message_id);
        self.is_whole && is_its && self.topic == row.topic && self.key == row.key
    }
}

/// Every record of all topics that is committed; those of a partition in its order.
pub(crate) fn read(bootstrap: &str, topics: &Topics) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for (place, topic) in topics.all() {
        read_topic(bootstrap, place, topic, &mut records).with_context(|| format!("read {topic}"))?;
    }
    Ok(records)
}

fn read_topic(bootstrap: &str, place: i16, topic: &str, records: &mut Vec<Record>) -> Result<()> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "audit")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .create()
        .context("make a consumer")?;
    let metadata = consumer.fetch_metadata(Some(topic), REQUEST).context("look for the topic")?;
    let (mut assignment, mut left) = (TopicPartitionList::new(), HashSet::new());
    for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
        left.insert(partition.id());
        assignment.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
    let mut end = Instant::now() + PATIENCE;
    while !left.is_empty() {
        ensure!(Instant::now() < end, "partitions {left:?} are still unread after {PATIENCE:?}");
        let message = match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) => message,
            // The marks of transactions have offsets, too: the end is where the broker says so.
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                left.remove(&partition);
                continue;
            }
            Some(Err(_)) | None => continue,
        };
        end = Instant::now() + PATIENCE;
        let payload = message.payload().unwrap_or_default();
        let name = Name::of_payload(payload);
        let header = |name: &str| {
            let found = message.headers()?.iter().find(|header| header.key == name)?;
            std::str::from_utf8(found.value?).ok().map(str::to_owned)
        };
        let at_ms = message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
        records.push(Record {
            name,
            message_id: header("outbox-message-id").and_then(|id| id.parse().ok()).unwrap_or_default(),
            at_ms: at_ms.context("a record without a time")?,
            sent_by: header(SENT_BY).and_then(|process| process.parse().ok()),
            topic: place,
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(|key| String::from_utf8_lossy(key).into_owned()),
            is_whole: name.is_some_and(|name| name.payload() == payload),
        });
    }
    Ok(())
}
