//! The consumer. Every call blocks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Instant, SystemTime};

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::decode;
use crate::entry::Millis;
use crate::limits::{
    BROKER_TIMEOUT, KAFKA_READ_AHEAD_KB, OPEN_TRANSACTION_POLL, OPEN_TRANSACTION_WAIT, RECORDS_PER_BATCH,
};
use crate::record::Record;
use crate::source::{Compaction, OpenTransaction, Partition, SourceError, TopicState};

/// The client wants one. It never joins it, and never commits.
const GROUP: &str = "diesel-outbox-verify";

/// A topic that is being read.
pub(super) struct Reader {
    pub(super) state: TopicState,
    topic: Arc<str>,
    /// Reads what is committed; asked for the end of a partition, it says up to where that is.
    committed: BaseConsumer,
    /// Says where a partition really ends.
    uncommitted: BaseConsumer,
    /// Where the reading is, for partitions that are not read up to their ends.
    left: BTreeMap<i32, i64>,
}

impl Reader {
    pub(super) fn open(config: &ClientConfig, topic: Arc<str>, from: Option<SystemTime>) -> Result<Self, SourceError> {
        let [committed, uncommitted] = [consumer(config, "read_committed")?, consumer(config, "read_uncommitted")?];
        let mut reader = Self { state: TopicState::default(), topic, committed, uncommitted, left: BTreeMap::new() };
        let ids = reader.partitions(config)?;
        reader.state.compaction = compaction(config, &reader.topic);
        let mut begins = from.map(|from| reader.begins(&ids, from)).transpose()?.unwrap_or_default();
        for id in ids {
            let begin = begins.remove(&id).transpose();
            let partition = begin.and_then(|begin| reader.partition(id, begin)).unwrap_or_else(|error| Partition {
                name: id.to_string(),
                unread: Some(error.to_string()),
                ..Partition::default()
            });
            reader.state.partitions.push(partition);
        }
        reader.assign_all()?;
        Ok(reader)
    }

    /// The numbers of the partitions, which begin at 0.
    fn partitions(&self, config: &ClientConfig) -> Result<Vec<i32>, SourceError> {
        let metadata = self.committed.fetch_metadata(Some(&self.topic), BROKER_TIMEOUT);
        let metadata = metadata.map_err(|error| self.failed(&error))?;
        let found = metadata.topics().iter().find(|found| found.name() == &*self.topic);
        match found.map(|found| (found, found.error().map(Code::from))) {
            Some((found, None)) if !found.partitions().is_empty() => {
                let mut ids: Vec<i32> = found.partitions().iter().map(|partition| partition.id()).collect();
                ids.sort_unstable();
                Ok(ids)
            }
            Some((_, Some(code))) if code != Code::UnknownTopicOrPartition => {
                Err(self.failed(&KafkaError::MetadataFetch(code)))
            }
            _ => {
                let brokers = config.get("bootstrap.servers").unwrap_or_default().to_owned();
                Err(SourceError::NoSuchTopic { topic: self.topic.to_string(), brokers })
            }
        }
    }

    /// The first offsets that are as late as a moment. A partition may fail by itself.
    fn begins(&self, ids: &[i32], from: SystemTime) -> Result<BTreeMap<i32, KafkaResult<Offset>>, SourceError> {
        let mut asked = TopicPartitionList::new();
        for id in ids {
            let at = Offset::Offset(Millis::of(from).0);
            asked.add_partition_offset(&self.topic, *id, at).map_err(|error| self.failed(&error))?;
        }
        let found = self.committed.offsets_for_times(asked, BROKER_TIMEOUT).map_err(|error| self.failed(&error))?;
        let begin = |element: &TopicPartitionListElem<'_>| element.error().map(|()| element.offset());
        Ok(found.elements().iter().map(|element| (element.partition(), begin(element))).collect())
    }

    /// The offsets of a partition. It waits for transactions to end, unless they take too long.
    fn partition(&self, id: i32, begin: Option<Offset>) -> KafkaResult<Partition> {
        let (first, end, open_transaction) = self.ends(id)?;
        let begin = match begin {
            Some(Offset::Offset(begin)) => begin.max(first),
            // It has no record of that time or later.
            Some(_) => end,
            None => first,
        };
        Ok(Partition { name: id.to_string(), first, begin, end, open_transaction, ..Partition::default() })
    }

    fn ends(&self, id: i32) -> KafkaResult<(i64, i64, Option<OpenTransaction>)> {
        let deadline = Instant::now() + OPEN_TRANSACTION_WAIT;
        let high_watermark = offset_at(&self.uncommitted, &self.topic, id, Offset::End)?;
        loop {
            let first = offset_at(&self.committed, &self.topic, id, Offset::Beginning)?;
            let last_stable = offset_at(&self.committed, &self.topic, id, Offset::End)?;
            if last_stable >= high_watermark {
                return Ok((first, last_stable, None));
            }
            if Instant::now() >= deadline {
                return Ok((first, last_stable, Some(OpenTransaction { last_stable, high_watermark })));
            }
            thread::park_timeout(OPEN_TRANSACTION_POLL);
        }
    }

    /// Begins to read the partitions that are not read up to their ends.
    fn assign_all(&mut self) -> Result<(), SourceError> {
        let mut assigned = TopicPartitionList::new();
        for (id, partition) in (0..).zip(&self.state.partitions) {
            if partition.unread.is_some() || partition.begin >= partition.end {
                continue;
            }
            self.left.insert(id, partition.begin);
            let added = assigned.add_partition_offset(&self.topic, id, Offset::Offset(partition.begin));
            added.map_err(|error| self.failed(&error))?;
        }
        self.committed.assign(&assigned).map_err(|error| self.failed(&error))
    }

    /// The next records; none at the end.
    pub(super) fn read(&mut self) -> Result<Vec<Record>, SourceError> {
        let mut records = Vec::new();
        while records.len() < RECORDS_PER_BATCH && !self.left.is_empty() {
            match self.committed.poll(BROKER_TIMEOUT) {
                Some(Ok(message)) => {
                    let (id, offset, end) = (message.partition(), message.offset(), self.end(message.partition()));
                    if offset < end {
                        records.push(decode::record(&message));
                    }
                    drop(message);
                    self.note(id, offset + 1, end)?;
                }
                // The marks of transactions have offsets, too: the end is where the broker says so.
                Some(Err(KafkaError::PartitionEOF(id))) => self.finish(id)?,
                Some(Err(error)) if is_fatal(&error) => return Err(self.failed(&error)),
                // The client tries again; it is given up when nothing comes for a while.
                Some(Err(_)) => {}
                None => {
                    let problem = format!("nothing came of it within {BROKER_TIMEOUT:?}");
                    for (id, _) in std::mem::take(&mut self.left) {
                        self.of(id).unread.get_or_insert_with(|| problem.clone());
                    }
                }
            }
        }
        if records.is_empty() {
            self.check_first_offsets();
        }
        Ok(records)
    }

    fn of(&mut self, id: i32) -> &mut Partition {
        let index = usize::try_from(id).unwrap_or_default();
        &mut self.state.partitions[index]
    }

    fn end(&self, id: i32) -> i64 {
        let partition = usize::try_from(id).ok().and_then(|index| self.state.partitions.get(index));
        partition.map_or(0, |partition| partition.end)
    }

    fn note(&mut self, id: i32, next: i64, end: i64) -> Result<(), SourceError> {
        match self.left.get_mut(&id) {
            Some(at) if next < end => {
                *at = next;
                Ok(())
            }
            Some(_) => self.finish(id),
            None => Ok(()),
        }
    }

    fn finish(&mut self, id: i32) -> Result<(), SourceError> {
        if self.left.remove(&id).is_some() {
            let mut done = TopicPartitionList::new();
            done.add_partition(&self.topic, id);
            self.committed.incremental_unassign(&done).map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Records may be removed while they are read.
    fn check_first_offsets(&mut self) {
        for index in 0..self.state.partitions.len() {
            let Partition { begin, end, unread: None, .. } = self.state.partitions[index] else { continue };
            let id = i32::try_from(index).unwrap_or_default();
            let problem = match offset_at(&self.committed, &self.topic, id, Offset::Beginning) {
                Ok(first) if first > begin && begin < end => {
                    format!("records up to offset {first} were removed while it was read from {begin} on")
                }
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            self.state.partitions[index].unread = Some(problem);
        }
    }

    /// Goes on up to the ends of now.
    pub(super) fn move_ends(&mut self) -> Result<(), SourceError> {
        let partitions = std::mem::take(&mut self.state.partitions);
        for (id, partition) in (0..).zip(partitions) {
            let moved = match self.ends(id) {
                _ if partition.unread.is_some() => partition,
                Ok((_, end, _)) => Partition { begin: partition.end, end, ..partition },
                Err(error) => Partition { unread: Some(error.to_string()), ..partition },
            };
            self.state.partitions.push(moved);
        }
        self.assign_all()
    }

    fn failed(&self, error: &KafkaError) -> SourceError {
        SourceError::Broker { topic: self.topic.to_string(), problem: error.to_string() }
    }
}

/// An end of a partition, by a time of Kafka's protocol: `Beginning` is -2, `End` is -1.
///
/// Not by `fetch_watermarks`, which may report the end as the beginning, and no error (librdkafka 2.12.1).
fn offset_at(consumer: &BaseConsumer, topic: &str, partition: i32, at: Offset) -> KafkaResult<i64> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition_offset(topic, partition, at)?;
    let found = consumer.offsets_for_times(asked, BROKER_TIMEOUT)?;
    match found.find_partition(topic, partition).map(|element| (element.error(), element.offset())) {
        Some((Ok(()), Offset::Offset(offset))) => Ok(offset),
        Some((Err(error), _)) => Err(error),
        _ => Err(KafkaError::MetadataFetch(Code::UnknownPartition)),
    }
}

/// Whether an error stays, as that of a missing right does.
fn is_fatal(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::Fatal)
            | Some(Code::Authentication | Code::SaslAuthenticationFailed)
    )
}

fn consumer(config: &ClientConfig, isolation: &str) -> Result<BaseConsumer, SourceError> {
    let mut config = config.clone();
    config
        .set("group.id", GROUP)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        // Where records were removed meanwhile, it goes on with what is left.
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", isolation)
        .set("queued.max.messages.kbytes", KAFKA_READ_AHEAD_KB.to_string());
    config.create().map_err(|error: KafkaError| SourceError::Settings { problem: error.to_string() })
}

/// What the topic's `cleanup.policy` says.
fn compaction(config: &ClientConfig, topic: &str) -> Compaction {
    match cleanup_policy(config, topic) {
        Ok(policy) if policy.split(',').any(|policy| policy.trim() == "compact") => Compaction::On,
        Ok(_) => Compaction::Off,
        Err(problem) => Compaction::Unknown(problem),
    }
}

fn cleanup_policy(config: &ClientConfig, topic: &str) -> Result<String, String> {
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(|error: KafkaError| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let options = AdminOptions::new().request_timeout(Some(BROKER_TIMEOUT));
    let described = runtime.block_on(admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options));
    let described = described.map_err(|error| error.to_string())?.into_iter().next();
    let settings = described.ok_or("the broker describes no topic")?.map_err(|code| code.to_string())?;
    let policy = settings.entries.into_iter().find(|entry| entry.name == "cleanup.policy");
    policy.and_then(|entry| entry.value).ok_or_else(|| "the broker says nothing of cleanup.policy".to_owned())
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("topic", &self.topic).field("left", &self.left).finish_non_exhaustive()
    }
}
