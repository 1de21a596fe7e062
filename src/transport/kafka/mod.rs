//! Kafka, through librdkafka.

mod blocking;
mod classify;
mod client;
mod client_log;
mod config;
#[cfg(feature = "serde")]
mod configured;
mod context;
mod error;
mod fenced;
mod health;
mod metadata_lookup;
mod murmur2;
mod partition_ends;
mod partitioner;
mod partitions;
mod reader;
mod record;
mod secrets;
mod topic;
mod topic_check;
mod topics;

pub(crate) use client_log::{log_line, log_statistics};
pub use config::{KafkaConfig, KafkaConfigError};
pub(crate) use partition_ends::offset_at;
pub(crate) use secrets::Secrets;
pub use topic::KafkaTopic;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::blocking::blocking;
use self::client::Client;
use self::context::SendContext;
use self::fenced::Fence;
use self::metadata_lookup::MetadataLookups;
use self::partitioner::{PartitionFn, Partitioner};
use self::topics::TopicSpec;
use super::{FailureClass, FencedLane, LaneName, Outcome, OutcomeSender, RowLookup, Transport, TransportError};
use crate::crash_points::crash_point;
use crate::limits::{KAFKA_ADMIN_TIMEOUT, KAFKA_FENCE_PREFIX};
use crate::message::Envelope;
use crate::topic::Topic;

/// Publishes to Kafka.
///
/// ```no_run
/// use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
///
/// let kafka = KafkaTransport::builder(KafkaConfig::new("127.0.0.1:9092"))
///     .create_topic(KafkaTopic::new("orders").partitions(6).replication(3).config("retention.ms", "604800000"))
///     .build()?;
/// # Ok::<_, diesel_outbox::transport::KafkaConfigError>(())
/// ```
///
/// A record carries the row's key and payload (none is a tombstone). Its timestamp is the time of sending. Its headers
/// are those of [`header`](super::header), which include the time when the row was written, and then the user's own.
///
/// **Order.** Messages of one key are in one partition, in the order they were handed over as long as none fails.
///
/// **Failures.** librdkafka retries until `message.timeout.ms`, and the final error is classified by its cause. One
/// message that is too large fails its whole request. Its neighbours are [`RecordRefused`](FailureClass::RecordRefused)
/// as well, and succeed when each is sent alone.
///
/// **Stalled partitions.** A partition that makes no progress while others do (it has no leader, its broker hangs) gets
/// only a few messages. Further ones fail as [`Temporary`](FailureClass::Temporary) at once, so that they do not fill
/// the relay's window. This needs the partition before sending. So it covers messages with a key under the partitioners
/// `murmur2_random` (the default) and `murmur2`, and those of
/// [`partition_with`](KafkaTransportBuilder::partition_with). Messages without a key go to partitions with a leader
/// anyway.
///
/// **Shutdown.** Dropping it abandons what the client still holds: outcome senders report a failure, from another thread,
/// within two seconds. Call [`flush`](Transport::flush) first; the relay's `shutdown` does. The lanes of fenced topics
/// have their own clients. They send what they were given, and end with the relay.
#[derive(Debug)]
pub struct KafkaTransport {
    client: Arc<Client>,
    delivery_timeout: Duration,
    partitioner: Arc<Partitioner>,
    fence_prefix: Arc<str>,
    topics: Vec<TopicSpec>,
}

impl KafkaTransport {
    /// A transport with these settings. Connects in the background; an unreachable cluster is no error.
    ///
    /// # Errors
    /// Returns an error for a setting that the client does not know, or that would break a guarantee of the outbox.
    pub fn new(config: KafkaConfig) -> Result<Self, KafkaConfigError> {
        Self::builder(config).build()
    }

    /// A builder with these settings, for further options.
    pub fn builder(config: KafkaConfig) -> KafkaTransportBuilder {
        KafkaTransportBuilder {
            config,
            partition_with: None,
            fence_prefix: KAFKA_FENCE_PREFIX.into(),
            topics: Vec::new(),
        }
    }

    async fn fence_lane(&self, lane: &LaneName) -> Result<Fence, TransportError> {
        let (partitioner, within) = (Arc::clone(&self.partitioner), self.delivery_timeout);
        let id = format!("{}/{lane}", self.fence_prefix);
        blocking(move || Fence::new(partitioner, id, within)).await?
    }
}

#[async_trait]
impl Transport for KafkaTransport {
    /// `message.timeout.ms`, and the time that the client takes to notice.
    fn system(&self) -> &'static str {
        "kafka"
    }

    fn delivery_timeout(&self) -> Duration {
        self.delivery_timeout
    }

    /// Creates or checks the topics given to the builder, and reads the partitions of `topics`.
    ///
    /// A missing topic that is to be neither created nor checked is no error: its messages fail as
    /// [`FailureClass::Topic`].
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        if topics.iter().any(Topic::is_fenced) {
            // Checked first: such settings are wrong whether the brokers are reachable or not.
            let (client, within) = (Arc::clone(&self.client), self.delivery_timeout);
            blocking(move || fenced::check(&client, within)).await??;
        }
        self.probe().await?;
        let lanes = topics
            .iter()
            .filter(|topic| topic.is_exactly_once())
            .filter_map(|topic| Some((fenced::progress::topic_of(topic.name()), topic.lane_count()?)));
        topics::prepare(&self.client, &self.topics, lanes.collect()).await?;
        let names: Vec<Arc<str>> = topics.iter().map(Topic::shared_name).collect();
        let client = Arc::clone(&self.client);
        blocking(move || names.iter().try_for_each(|topic| client.refresh_partitions(topic, KAFKA_ADMIN_TIMEOUT)))
            .await?
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.send_all(vec![(envelope, sender)]);
    }

    /// All records are made before the first one is handed over, because the client's thread starts to send with the
    /// first.
    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        let (mut envelopes, mut places) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        for (envelope, sender) in messages {
            match self.partitioner.place(&envelope) {
                Ok((partition, place)) => {
                    let sender = sender.tracked_by(&self.client.in_flight);
                    let send_context = Box::new(SendContext { sender, topic: Arc::clone(&envelope.topic), place });
                    places.push((partition, send_context));
                    envelopes.push(envelope);
                }
                Err(error) => sender.complete(Outcome::Failed(error)),
            }
        }
        let records = envelopes.iter().zip(places);
        self.client.send(
            records
                .map(|(envelope, (partition, send_context))| record::record(envelope, partition, send_context))
                .collect(),
        );
    }

    async fn probe(&self) -> Result<(), TransportError> {
        let client = Arc::clone(&self.client);
        blocking(move || client.probe()).await?
    }

    fn outage(&self) -> Option<FailureClass> {
        self.client.outage().map(|outage| outage.class())
    }

    fn supports_fencing(&self) -> bool {
        true
    }

    /// Uses a producer for this lane alone, with a transactional id.
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        self.fence_lane(&lane).await?.open(Vec::new())
    }

    fn supports_exactly_once(&self) -> bool {
        true
    }

    /// Each transaction also stores, in a compacted topic, what it delivers.
    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let mut fence = self.fence_lane(&lane).await?;
        let (fence, delivered) = blocking(move || fence.recover(&lane).map(|delivered| (fence, delivered))).await??;
        let delivered = rows.existing(delivered).await?;
        crash_point!(LANE_RECOVERED);
        fence.open(delivered)
    }

    async fn flush(&self, within: Duration) -> usize {
        self.client.in_flight.wait_until_none(within).await
    }
}

/// Builds a [`KafkaTransport`].
#[derive(Debug)]
pub struct KafkaTransportBuilder {
    config: KafkaConfig,
    partition_with: Option<PartitionFn>,
    fence_prefix: Arc<str>,
    topics: Vec<TopicSpec>,
}

impl KafkaTransportBuilder {
    /// Chooses a message's partition, given the topic's number of partitions; `None` leaves it to the partitioner.
    ///
    /// Called in [`send`](Transport::send): it must not block. A partition that the topic does not have, or a panic,
    /// spends an attempt of the message. Until the topic's partitions are known, messages fail as
    /// [`FailureClass::Temporary`]. The relay reads them at start, or at the end of an outage at start.
    ///
    /// ```no_run
    /// use diesel_outbox::transport::{KafkaConfig, KafkaTransport};
    /// let kafka = KafkaTransport::builder(KafkaConfig::new("127.0.0.1:9092"))
    ///     .partition_with(|envelope, count| (envelope.kind == "audit").then_some(count - 1))
    ///     .build()?;
    /// # Ok::<_, diesel_outbox::transport::KafkaConfigError>(())
    /// ```
    #[must_use]
    pub fn partition_with(mut self, choose: impl Fn(&Envelope, i32) -> Option<i32> + Send + Sync + 'static) -> Self {
        self.partition_with = Some(PartitionFn(Box::new(choose)));
        self
    }

    /// The prefix of the transactional ids of [fenced](Topic::fenced) topics; `diesel-outbox` by default. It must have
    /// no slash. Table, relay name (for one of [`Relays`](crate::relay::Relays)), topic and lane follow, each after a
    /// slash.
    ///
    /// It must be the same on every node of an outbox. It must differ between outboxes that send to the same cluster
    /// with equal names of tables and topics: they would fence each other. Nodes with different prefixes do not fence
    /// each other. To change it, do as when a topic becomes fenced: stop every relay, wait for the delivery time-out,
    /// start them all.
    #[must_use]
    pub fn fence_prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.fence_prefix = prefix.into();
        self
    }

    /// Creates the topic when the relay starts. If it exists already, it is [checked](Self::check_topic).
    #[must_use]
    pub fn create_topic(mut self, topic: KafkaTopic) -> Self {
        self.topics.push(TopicSpec { topic, create: true });
        self
    }

    /// Checks when the relay starts that the topic exists and is as given. Otherwise the relay does not start, and the
    /// error lists every difference.
    #[must_use]
    pub fn check_topic(mut self, topic: KafkaTopic) -> Self {
        self.topics.push(TopicSpec { topic, create: false });
        self
    }

    /// Builds the transport. Connects in the background; an unreachable cluster is no error.
    ///
    /// # Errors
    /// Returns an error for a setting that the client does not know, or that would break a guarantee of the outbox.
    pub fn build(self) -> Result<KafkaTransport, KafkaConfigError> {
        let Self { config, partition_with, fence_prefix, topics } = self;
        // Otherwise the ids of two outboxes could be equal.
        if fence_prefix.contains(['/', '\0']) {
            return Err(KafkaConfigError::FencePrefix { given: fence_prefix });
        }
        let checked = config.check()?;
        let (lookups, requests) = MetadataLookups::new();
        let client = Arc::new(Client::new(checked.client, config.secrets(), lookups)?);
        reader::start(Arc::downgrade(&client), requests)?;
        let hashes_by_murmur2 = config.hashes_by_murmur2();
        let partitioner = Arc::new(Partitioner { client: Arc::clone(&client), hashes_by_murmur2, partition_with });
        Ok(KafkaTransport { client, delivery_timeout: checked.delivery_timeout, partitioner, fence_prefix, topics })
    }
}
