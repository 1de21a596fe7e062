//! An outbox on SQLite, and what a Kafka topic holds.

use std::time::{Duration, Instant};

use anyhow::Result;
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel_outbox::relay::FlushOutcome;
use diesel_outbox::store::{SQLITE_SET_UP, SqliteStore};
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport, Transport};
use diesel_outbox::{MessageId, Outbox, OutboxMessage};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tempfile::TempDir;

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Shop {
    folder: TempDir,
    pub(crate) outbox: Outbox,
}

impl Shop {
    pub(crate) fn open(outbox: Outbox) -> Result<Self> {
        let shop = Self { folder: tempfile::tempdir()?, outbox };
        shop.outbox.migrate(&mut shop.connect()?)?;
        Ok(shop)
    }

    pub(crate) fn file(&self) -> String {
        self.folder.path().join("shop.db").display().to_string()
    }

    pub(crate) fn connect(&self) -> Result<SqliteConnection> {
        let mut conn = SqliteConnection::establish(&self.file())?;
        conn.batch_execute(SQLITE_SET_UP)?;
        Ok(conn)
    }

    pub(crate) fn enqueue(&self, event: &impl OutboxMessage) -> Result<()> {
        self.connect()?.immediate_transaction(|conn| self.outbox.enqueue(conn, event))?;
        Ok(())
    }

    /// Runs a relay, and sends what is enqueued meanwhile.
    pub(crate) fn relay(&self, transport: impl Transport, enqueue: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let store = SqliteStore::connect(self.file())?;
        let relay = self.outbox.relay().store(store).transport(transport).start_blocking()?;
        enqueue(self)?;
        let flushed = relay.flush(DEADLINE)?;
        anyhow::ensure!(flushed == FlushOutcome::Settled, "not everything was sent: {flushed:?}");
        relay.shutdown(DEADLINE)?;
        Ok(())
    }
}

/// A topic's name that no other test has.
pub(crate) fn new_topic(of: &str) -> String {
    format!("{of}-{}", MessageId::new())
}

/// A transport that makes the topic, with one partition.
pub(crate) fn kafka(bootstrap: &str, topic: &str) -> Result<KafkaTransport> {
    let topic = KafkaTopic::new(topic).partitions(1).replication(1);
    Ok(KafkaTransport::builder(KafkaConfig::new(bootstrap)).create_topic(topic).build()?)
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Option<String>,
    pub(crate) payload: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known == name);
        let value = named.next().map(|(_, value)| std::str::from_utf8(value).expect("a text"));
        assert!(named.next().is_none(), "{name} is there twice: {:?}", self.headers);
        value
    }
}

/// The first records of a topic with one partition.
pub(crate) fn read(bootstrap: &str, topic: &str, count: usize) -> Result<Vec<Record>> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", bootstrap).set("group.id", "codecs").create()?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Beginning)?;
    consumer.assign(&partitions)?;
    let (mut records, until) = (Vec::new(), Instant::now() + DEADLINE);
    while records.len() < count {
        anyhow::ensure!(Instant::now() < until, "{} of {count} records were there", records.len());
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = message?;
        let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
        records.push(Record {
            key: message.key().map(|key| String::from_utf8_lossy(key).into_owned()),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect(),
        });
    }
    Ok(records)
}
