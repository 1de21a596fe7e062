//! An independent consumer. It reads topics to their end, directly from the broker; the one with a short retention all
//! the time.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::task::{JoinHandle, spawn_blocking};
use uuid::Uuid;

use crate::app::SENT_BY;
use crate::truth::{Committed, MessageName};
use crate::wire::{AGED, TWICE, Topics};

/// The longest time without a record.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest one request may take.
const REQUEST: Duration = Duration::from_secs(15);

/// The pause between two reads of the aged topic. It is below the retention, and long enough that a record which is
/// expired on arrival is gone before it is read.
const POLL_INTERVAL: Duration = Duration::from_secs(4);

/// A record of a topic, as far as the audit needs it.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) name: Option<MessageName>,
    pub(crate) message_id: Uuid,
    /// When the broker wrote it: milliseconds since 1970. On the aged topic, the sender's timestamp.
    pub(crate) at_ms: u64,
    pub(crate) sent_by: Option<u32>,
    /// The index in [`Topics::all`].
    pub(crate) topic: i16,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<String>,
    /// Whether its bytes match its name.
    pub(crate) is_whole: bool,
}

impl Record {
    /// Whether it matches what was committed.
    pub(crate) fn is_of(&self, row: &Committed) -> bool {
        let is_its = row.message_id.is_none_or(|message_id| message_id == self.message_id);
        self.is_whole && is_its && self.topic == row.topic && self.key == row.key
    }
}

/// Every committed record of all topics, except the aged one; those of a partition in order.
pub(crate) fn read(bootstrap: &str, topics: &Topics) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for (place, name) in topics.all().into_iter().filter(|(place, _)| *place != AGED) {
        let mut topic = TopicReader::new(place, name);
        topic.read(bootstrap).with_context(|| format!("read topic {name}"))?;
        records.append(&mut topic.records);
    }
    Ok(records)
}

/// Every record of the topic to which the driver sends.
pub(crate) fn read_twice(bootstrap: &str, topics: &Topics) -> Result<Vec<Record>> {
    let mut topic = TopicReader::new(TWICE, topics.name(TWICE));
    topic.read(bootstrap).with_context(|| format!("read topic {}", topic.name))?;
    Ok(topic.records)
}

/// Reads the aged topic again and again, each time from its last position to the end: expired records are gone by then.
#[derive(Debug)]
pub(crate) struct AgedTopicReader {
    /// When it is dropped, the reader reads once more and ends.
    goes_on: Sender<()>,
    task: JoinHandle<Result<Vec<Record>>>,
}

impl AgedTopicReader {
    pub(crate) fn start(bootstrap: String, topics: &Topics) -> Self {
        let mut topic = TopicReader::new(AGED, topics.name(AGED));
        let (goes_on, ends) = channel();
        let task = spawn_blocking(move || {
            // While the broker is down nothing can be read, and nothing is deleted.
            while ends.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = topic.read(&bootstrap) {
                    eprintln!("the consumer reads again in {POLL_INTERVAL:?}: {error:#}");
                }
            }
            topic.read(&bootstrap).with_context(|| format!("read {}", topic.name))?;
            Ok(topic.records)
        });
        Self { goes_on, task }
    }

    /// Everything it has read, after a last read.
    pub(crate) async fn end(self) -> Result<Vec<Record>> {
        drop(self.goes_on);
        self.task.await?
    }
}

/// The records read from a topic so far.
#[derive(Debug)]
struct TopicReader {
    place: i16,
    name: String,
    /// The next offset of each partition.
    next: HashMap<i32, i64>,
    records: Vec<Record>,
}

impl TopicReader {
    fn new(place: i16, name: &str) -> Self {
        Self { place, name: name.to_owned(), next: HashMap::new(), records: Vec::new() }
    }

    /// Reads from its position to the end.
    fn read(&mut self, bootstrap: &str) -> Result<()> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "audit")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            // Removed records are skipped.
            .set("auto.offset.reset", "earliest")
            .create()
            .context("create a consumer")?;
        let metadata = consumer.fetch_metadata(Some(&self.name), REQUEST).context("look for the topic")?;
        let (mut assignment, mut left) = (TopicPartitionList::new(), HashSet::new());
        for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
            left.insert(partition.id());
            let from = self.next.get(&partition.id()).map_or(Offset::Beginning, |next| Offset::Offset(*next));
            assignment.add_partition_offset(&self.name, partition.id(), from)?;
        }
        ensure!(!left.is_empty(), "the topic has no partition");
        consumer.assign(&assignment)?;
        let mut end = Instant::now() + TIMEOUT;
        while !left.is_empty() {
            ensure!(Instant::now() < end, "partitions {left:?} are still unread after {TIMEOUT:?}");
            let message = match consumer.poll(Duration::from_millis(200)) {
                Some(Ok(message)) => message,
                // Transaction markers have offsets, too: the broker reports the end.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    left.remove(&partition);
                    continue;
                }
                Some(Err(_)) | None => continue,
            };
            end = Instant::now() + TIMEOUT;
            let next = self.next.entry(message.partition()).or_default();
            if message.offset() >= *next {
                *next = message.offset() + 1;
                self.records.push(record(&message, self.place)?);
            }
        }
        Ok(())
    }
}

fn record(message: &BorrowedMessage<'_>, topic: i16) -> Result<Record> {
    let payload = message.payload().unwrap_or_default();
    let name = MessageName::of_payload(payload);
    let header = |name: &str| {
        let found = message.headers()?.iter().find(|header| header.key == name)?;
        std::str::from_utf8(found.value?).ok().map(str::to_owned)
    };
    let at_ms = message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
    Ok(Record {
        name,
        message_id: header("outbox-message-id").and_then(|id| id.parse().ok()).unwrap_or_default(),
        at_ms: at_ms.context("a record without a timestamp")?,
        sent_by: header(SENT_BY).and_then(|process| process.parse().ok()),
        topic,
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(|key| String::from_utf8_lossy(key).into_owned()),
        is_whole: name.is_some_and(|name| name.payload() == payload),
    })
}
