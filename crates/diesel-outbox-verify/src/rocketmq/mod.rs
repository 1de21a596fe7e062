//! Topics of RocketMQ.

mod client;
mod library;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel_outbox::transport::RocketMqRecord;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::result::PullStatus;
use tokio::time::Instant;

use self::client::Client;
use crate::limits::{BROKER_TIMEOUT, RECORDS_PER_BATCH};
use crate::record::Record;
use crate::source::{Compaction, Partition, RecordSource, SourceError, TopicState};

/// Reads a topic of RocketMQ: every queue of every broker, by offset.
///
/// ```
/// use diesel_outbox_verify::RocketMqSource;
/// let topic = RocketMqSource::new("10.0.0.1:9876;10.0.0.2:9876").credentials("shop", "a secret");
/// assert!(!format!("{topic:?}").contains("a secret"));
/// ```
pub struct RocketMqSource {
    name_servers: String,
    namespace: Option<String>,
    credentials: Option<(String, String)>,
    state: TopicState,
    client: Option<Client>,
    /// Where the reading is, for queues that are not read up to their ends.
    left: BTreeMap<usize, i64>,
}

impl RocketMqSource {
    /// A reader for the cluster of these name servers, `host:port` each, separated by `;`.
    pub fn new(name_servers: impl Into<String>) -> Self {
        Self {
            name_servers: name_servers.into(),
            namespace: None,
            credentials: None,
            state: TopicState::default(),
            client: None,
            left: BTreeMap::new(),
        }
    }

    /// The namespace, as the transport has it.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Signs every request.
    #[must_use]
    pub fn credentials(mut self, access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        self.credentials = Some((access_key.into(), secret_key.into()));
        self
    }

    /// How long the broker holds the topic's messages, if the transport asks it to
    /// ([`broker_delay`](diesel_outbox::transport::RocketMqConfig)): until then nobody can read them.
    #[must_use]
    pub fn broker_delay(mut self, delay: Duration) -> Self {
        self.state.delay = delay;
        self
    }

    fn client(&self) -> Result<&Client, SourceError> {
        self.client.as_ref().ok_or_else(|| SourceError::Settings { problem: "the topic is not open".to_owned() })
    }

    /// Reads from a queue. What comes may be behind its end.
    async fn pull(&mut self, index: usize, records: &mut Vec<Record>) -> Result<(), SourceError> {
        let Some(offset) = self.left.get(&index).copied() else { return Ok(()) };
        let (client, deadline) = (self.client()?, Instant::now() + BROKER_TIMEOUT);
        let queue = &client.queues[index];
        let (next, found) = loop {
            let mut pulled = client.pull(queue, offset).await?;
            match pulled.pull_status() {
                PullStatus::Found => {
                    let next = i64::try_from(pulled.next_begin_offset()).unwrap_or(i64::MAX);
                    break (next, pulled.msg_found_list().map(<[MessageExt]>::to_vec).unwrap_or_default());
                }
                // What is stored comes to its queue a moment later.
                _ if Instant::now() < deadline && offset < i64::try_from(pulled.max_offset()).unwrap_or(i64::MAX) => {}
                status => {
                    let problem = format!("offset {offset} could not be read: {status:?}");
                    self.state.partitions[index].unread = Some(problem);
                    pulled.set_msg_found_list(None);
                    break (i64::MAX, Vec::new());
                }
            }
        };
        let (partition, end) = (u32::try_from(index).unwrap_or_default(), self.state.partitions[index].end);
        let within = found.iter().filter(|message| message.queue_offset() < end);
        records.extend(within.map(|message| record(partition, message)));
        if next >= end {
            self.left.remove(&index);
        } else {
            self.left.insert(index, next);
        }
        Ok(())
    }

    fn leave(&mut self) {
        let partitions = self.state.partitions.iter().enumerate();
        let unread = partitions.filter(|(_, of)| of.unread.is_none() && of.begin < of.end);
        self.left = unread.map(|(index, of)| (index, of.begin)).collect();
    }
}

/// A message of a queue in the terms of the outbox.
fn record(partition: u32, message: &MessageExt) -> Record {
    let properties = message.properties().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let read = RocketMqRecord::read(properties, message.body().map(|body| body.to_vec()).unwrap_or_default());
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(message.store_timestamp().try_into().unwrap_or_default());
    let mut record = Record::new(partition, message.queue_offset(), at).with_headers(read.headers.iter());
    (record.key, record.payload) = (read.key, read.payload);
    record
}

#[async_trait]
impl RecordSource for RocketMqSource {
    async fn open(&mut self, topic: &str, from: Option<SystemTime>) -> Result<TopicState, SourceError> {
        let topic = match &self.namespace {
            Some(namespace) => format!("{namespace}%{topic}").into(),
            None => topic.into(),
        };
        let client = Client::start(&self.name_servers, self.credentials.as_ref(), topic).await?;
        if client.queues.is_empty() {
            let brokers = self.name_servers.clone();
            return Err(SourceError::NoSuchTopic { topic: client.topic.to_string(), brokers });
        }
        let mut partitions = Vec::with_capacity(client.queues.len());
        for queue in &client.queues {
            let name = format!("{}/{}", queue.broker_name(), queue.queue_id());
            partitions.push(match client.offsets(queue, from).await {
                Ok([first, begin, end]) => Partition { name, first, begin, end, ..Partition::default() },
                Err(error) => Partition { name, unread: Some(error.to_string()), ..Partition::default() },
            });
        }
        (self.state.partitions, self.state.compaction) = (partitions, Compaction::Off);
        self.client = Some(client);
        self.leave();
        Ok(self.state.clone())
    }

    async fn next(&mut self) -> Result<Vec<Record>, SourceError> {
        let mut records = Vec::new();
        while records.len() < RECORDS_PER_BATCH {
            let Some(index) = self.left.keys().next().copied() else { break };
            self.pull(index, &mut records).await?;
        }
        Ok(records)
    }

    async fn move_ends(&mut self) -> Result<(), SourceError> {
        for index in 0..self.state.partitions.len() {
            if self.state.partitions[index].unread.is_some() {
                continue;
            }
            let client = self.client()?;
            let [_, _, end] = client.offsets(&client.queues[index], None).await?;
            let partition = &mut self.state.partitions[index];
            (partition.begin, partition.end) = (partition.end, end);
        }
        self.leave();
        Ok(())
    }

    fn state(&self) -> TopicState {
        self.state.clone()
    }
}

// Without the secret.
impl fmt::Debug for RocketMqSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name_servers, namespace, state, .. } = self;
        let mut shown = f.debug_struct("RocketMqSource");
        shown.field("name_servers", name_servers).field("namespace", namespace).field("state", state);
        shown.finish_non_exhaustive()
    }
}
