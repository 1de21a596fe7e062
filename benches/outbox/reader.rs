//! A topic as seen by a client that has nothing to do with its writer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

use crate::broker::PARTITIONS;

const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Reader {
    consumer: BaseConsumer,
    topic: String,
}

impl Reader {
    pub(crate) fn new(bootstrap: &str, topic: &str) -> Result<Self> {
        let mut config = ClientConfig::new();
        // The client requires a group; nothing is committed to it.
        config.set("bootstrap.servers", bootstrap).set("group.id", "bench").set("enable.auto.commit", "false");
        Ok(Self { consumer: config.create().context("make a consumer")?, topic: topic.to_owned() })
    }

    /// The number of messages in the topic, by its offsets: three requests.
    pub(crate) fn count(&self) -> Result<u64> {
        let ends = (0..PARTITIONS).map(|partition| self.consumer.fetch_watermarks(&self.topic, partition, TIMEOUT));
        let counts = ends.map(|ends| ends.map(|(low, high)| u64::try_from(high - low).unwrap_or_default()));
        Ok(counts.sum::<Result<u64, KafkaError>>()?)
    }

    /// Reads everything and compares it with a backlog of `rows`: each key from 1 to that number, with its payload.
    /// Returns the number of duplicates.
    ///
    /// # Errors
    ///
    /// Returns an error if a message is missing, is not of the backlog, or has another payload.
    pub(crate) fn second_copies(&self, rows: usize, payloads: &[Vec<u8>]) -> Result<u64> {
        self.assign()?;
        let (count, mut copies) = (self.count()?, vec![0_u64; rows]);
        for read in 0..count {
            let message = self.next().with_context(|| format!("{read} of {count} messages are read"))?;
            let key = message.key().and_then(|key| std::str::from_utf8(key).ok()?.parse::<usize>().ok());
            let key = key.filter(|key| (1..=rows).contains(key)).context("a message has the key of no row")?;
            ensure!(message.payload() == Some(&payloads[key % payloads.len()]), "the payload of row {key} is another");
            copies[key - 1] += 1;
        }
        let missing = copies.iter().filter(|copies| **copies == 0).count();
        ensure!(missing == 0, "{missing} of {rows} rows are not in the topic");
        Ok(count - rows as u64)
    }

    /// Reads everything; returns how much it was.
    pub(crate) fn read_all(&self) -> Result<u64> {
        self.assign()?;
        let count = self.count()?;
        (0..count).try_for_each(|_| self.next().map(drop))?;
        Ok(count)
    }

    /// From the beginning of each partition.
    fn assign(&self) -> Result<()> {
        let mut assignment = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            assignment.add_partition_offset(&self.topic, partition, Offset::Beginning)?;
        }
        Ok(self.consumer.assign(&assignment)?)
    }

    fn next(&self) -> Result<rdkafka::message::BorrowedMessage<'_>> {
        let end = Instant::now() + TIMEOUT;
        loop {
            // Errors here are those of a connection, which the client reconnects.
            if let Some(Ok(message)) = self.consumer.poll(Duration::from_millis(200)) {
                return Ok(message);
            }
            ensure!(Instant::now() < end, "no message for {TIMEOUT:?}");
        }
    }
}
