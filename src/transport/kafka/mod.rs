//! Kafka, through librdkafka.

mod blocking;
mod classify;
mod client;
mod config;
mod context;
mod error;
mod fenced;
mod health;
mod metadata_lookup;
mod murmur2;
mod partitioner;
mod partitions;
mod reader;
mod record;
mod secrets;
mod topic;
mod topic_check;
mod topics;

pub use config::{KafkaConfig, KafkaConfigError};
pub use topic::KafkaTopic;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::blocking::blocking;
use self::client::Client;
use self::context::SendContext;
use self::metadata_lookup::MetadataLookups;
use self::partitioner::{PartitionFn, Partitioner};
use self::topics::TopicSpec;
use super::{FailureClass, FencedLane, LaneName, Outcome, Receipt, Transport, TransportError};
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
/// A record carries the row's key, payload (none is a tombstone), the time of its sending as its timestamp, and the headers of
/// [`header`](super::header) before the user's own; when the row was written is one of these.
///
/// **Order.** Messages of one key are in one partition, and in the order they were handed over as long as none fails.
///
/// **Failures.** librdkafka repeats what may be repeated until `message.timeout.ms`; what it reports then is classified
/// by its cause. A message too large fails the whole request it was in: its neighbours are
/// [`RecordRefused`](FailureClass::RecordRefused) as well, and go through when each is tried alone.
///
/// **A partition that takes nothing while others do** (it has no leader, its broker hangs) is given no more than a few
/// messages; further ones fail as [`Temporary`](FailureClass::Temporary) at once, so that they do not fill the
/// relay's window. That needs the partition before sending, and is so for messages with a key under the partitioners
/// `murmur2_random` (the default) and `murmur2`, and for those of
/// [`partition_with`](KafkaTransportBuilder::partition_with). Messages without key go to partitions with a leader anyhow.
///
/// **The end.** Dropping it gives up what the client still holds: receipts report it as failed, from another thread,
/// within two seconds. [`flush`](Transport::flush) before; the relay's `shutdown` does. The lanes of fenced topics have clients of their
/// own, and send what they were given: they end with the relay.
#[derive(Debug)]
pub struct KafkaTransport {
    client: Arc<Client>,
    delivery_timeout: Duration,
    partitioner: Arc<Partitioner>,
    fence_prefix: Arc<str>,
    topics: Vec<TopicSpec>,
}

impl KafkaTransport {
    /// A transport with these settings. Connects in the background; a cluster that is away is no error.
    ///
    /// # Errors
    /// A setting that the client does not know, or that would break what the outbox promises.
    pub fn new(config: KafkaConfig) -> Result<Self, KafkaConfigError> {
        Self::builder(config).build()
    }

    /// A transport with these settings and more.
    pub fn builder(config: KafkaConfig) -> KafkaTransportBuilder {
        KafkaTransportBuilder {
            config,
            partition_with: None,
            fence_prefix: KAFKA_FENCE_PREFIX.into(),
            topics: Vec::new(),
        }
    }
}

#[async_trait]
impl Transport for KafkaTransport {
    /// `message.timeout.ms` and what the client takes to notice.
    fn delivery_timeout(&self) -> Duration {
        self.delivery_timeout
    }

    /// Makes or checks the topics given to the builder, and reads how many partitions each of `topics` has.
    ///
    /// A topic that the cluster does not have and that is to be neither made nor checked is no error: its messages
    /// fail as [`FailureClass::Topic`].
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        if topics.iter().any(Topic::is_fenced) {
            // Before anybody is asked: it is wrong whether the brokers are there or not.
            let (client, within) = (Arc::clone(&self.client), self.delivery_timeout);
            blocking(move || fenced::check(&client, within)).await??;
        }
        self.probe().await?;
        topics::prepare(&self.client, &self.topics).await?;
        let names: Vec<Arc<str>> = topics.iter().map(Topic::shared_name).collect();
        let client = Arc::clone(&self.client);
        blocking(move || names.iter().try_for_each(|topic| client.refresh_partitions(topic, KAFKA_ADMIN_TIMEOUT)))
            .await?
    }

    fn send(&self, envelope: Envelope, receipt: Receipt) {
        self.send_all(vec![(envelope, receipt)]);
    }

    /// All records are made before the first one is handed over: the client's thread starts to send with the first.
    fn send_all(&self, messages: Vec<(Envelope, Receipt)>) {
        let (mut envelopes, mut places) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        for (envelope, receipt) in messages {
            match self.partitioner.place(&envelope) {
                Ok((partition, place)) => {
                    let receipt = receipt.tracked_by(&self.client.in_flight);
                    let send_context = Box::new(SendContext { receipt, topic: Arc::clone(&envelope.topic), place });
                    places.push((partition, send_context));
                    envelopes.push(envelope);
                }
                Err(error) => receipt.complete(Outcome::Failed(error)),
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

    /// With a producer of the lane's own, that has a transactional id.
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        let (partitioner, within) = (Arc::clone(&self.partitioner), self.delivery_timeout);
        let id = format!("{}/{lane}", self.fence_prefix);
        blocking(move || fenced::fence(partitioner, id, within)).await?
    }

    async fn flush(&self, within: Duration) -> usize {
        self.client.in_flight.wait_until_none(within).await
    }
}

/// Puts a [`KafkaTransport`] together.
#[derive(Debug)]
pub struct KafkaTransportBuilder {
    config: KafkaConfig,
    partition_with: Option<PartitionFn>,
    fence_prefix: Arc<str>,
    topics: Vec<TopicSpec>,
}

impl KafkaTransportBuilder {
    /// Chooses the partition of a message, given how many its topic has; `None` leaves it to the partitioner.
    ///
    /// Called in [`send`](Transport::send): it must not block. A partition that the topic does not have, or a panic, spends an
    /// attempt of the message. Until the topic's partitions are known (the relay's start reads them, or the end of an
    /// outage at start) messages fail as [`FailureClass::Temporary`].
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

    /// What the transactional ids of [fenced](Topic::fenced) topics begin with; `diesel-outbox` by default. Table, name of the relay
    /// where it is one of [`Relays`](crate::relay::Relays), topic and lane follow, each behind a slash. It has no slash itself.
    ///
    /// Has to be the same on every node of an outbox, and another for each outbox that sends to the same cluster with tables
    /// and topics of the same names: they would fence each other. Nodes with one and nodes with another do not fence each other, so
    /// that it is changed like a topic is made fenced: stop every relay, wait for the delivery time-out, start them all.
    #[must_use]
    pub fn fence_prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.fence_prefix = prefix.into();
        self
    }

    /// Makes the topic when the relay starts. Where it is there already it is [checked](Self::check_topic).
    #[must_use]
    pub fn create_topic(mut self, topic: KafkaTopic) -> Self {
        self.topics.push(TopicSpec { topic, create: true });
        self
    }

    /// Checks when the relay starts that the topic is there and is as given; it does not start otherwise, and the
    /// error lists every difference.
    #[must_use]
    pub fn check_topic(mut self, topic: KafkaTopic) -> Self {
        self.topics.push(TopicSpec { topic, create: false });
        self
    }

    /// Makes the transport. Connects in the background; a cluster that is away is no error.
    ///
    /// # Errors
    /// A setting that the client does not know, or that would break what the outbox promises.
    pub fn build(self) -> Result<KafkaTransport, KafkaConfigError> {
        let Self { config, partition_with, fence_prefix, topics } = self;
        // Or one outbox's ids could be another's.
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
