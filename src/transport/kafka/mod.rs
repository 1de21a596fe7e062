//! Kafka, through librdkafka.

mod blocking;
mod classify;
mod client;
mod config;
mod context;
mod error;
mod health;
mod look_up;
mod murmur2;
mod partitions;
mod reader;
mod record;
mod secrets;
mod topics;

pub use config::{KafkaConfig, KafkaConfigError};
pub use topics::KafkaTopic;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::blocking::blocking;
use self::client::Client;
use self::context::Ticket;
use self::error::NotSent;
use self::look_up::{Ask, LookUps};
use self::partitions::{Entrance, Place};
use self::topics::Wanted;
use super::{FailureClass, Outcome, Receipt, Transport, TransportError};
use crate::limits::KAFKA_ADMIN_TIMEOUT;
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
/// A record carries the row's key, payload (none is a tombstone), `created_at` as its timestamp, and the headers of
/// [`header`](super::header) before the user's own.
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
/// within two seconds. [`flush`](Transport::flush) before; the relay's `shutdown` does.
#[derive(Debug)]
pub struct KafkaTransport {
    client: Arc<Client>,
    config: KafkaConfig,
    delivery_timeout: Duration,
    partition_with: Option<Choose>,
    topics: Vec<Wanted>,
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
        KafkaTransportBuilder { config, partition_with: None, topics: Vec::new() }
    }

    /// Where a message goes, as far as that is ours to say, and the place it takes there.
    fn place(&self, envelope: &Envelope) -> Result<(Option<i32>, Option<Place>), TransportError> {
        let topic = &envelope.topic;
        let chooses = self.partition_with.is_some() || (envelope.key.is_some() && self.config.hashes_by_murmur2());
        if !chooses {
            return Ok((None, None));
        }
        let Some(slots) = self.client.partitions.of(topic) else {
            self.client.look_ups.ask(Ask::Topic(Arc::clone(topic)));
            return match self.partition_with {
                // Sent anywhere else, the message would be where nobody looks for it.
                Some(_) => Err(not_sent(FailureClass::Temporary, NotSent::CountUnknown { topic: Arc::clone(topic) })),
                None => Ok((None, None)),
            };
        };
        let count = i32::try_from(slots.len()).unwrap_or(i32::MAX);
        let chosen = self.partition_with.as_ref().and_then(|Choose(choose)| choose(envelope, count));
        let hashed = || {
            let key = envelope.key.as_deref().filter(|_| self.config.hashes_by_murmur2())?;
            Some(murmur2::partition_of(key.as_bytes(), count))
        };
        let Some(partition) = chosen.or_else(hashed) else { return Ok((None, None)) };
        let slot = usize::try_from(partition).ok().and_then(|index| slots.get(index));
        let Some(slot) = slot else {
            let error = NotSent::NoSuchPartition { topic: Arc::clone(topic), chosen: partition, count };
            return Err(not_sent(FailureClass::Record, error));
        };
        let (entrance, place) = slot.enter();
        if entrance != Entrance::Open {
            self.client.look_ups.ask(Ask::Topic(Arc::clone(topic)));
        }
        if entrance == Entrance::Closed {
            let error = NotSent::Stalled { topic: Arc::clone(topic), partition };
            return Err(not_sent(FailureClass::Temporary, error));
        }
        Ok((Some(partition), place))
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
        self.probe().await?;
        topics::prepare(&self.client, &self.topics).await?;
        let names: Vec<Arc<str>> = topics.iter().map(Topic::shared_name).collect();
        let client = Arc::clone(&self.client);
        blocking(move || names.iter().try_for_each(|topic| client.look_up(topic, KAFKA_ADMIN_TIMEOUT))).await?
    }

    fn send(&self, envelope: Envelope, receipt: Receipt) {
        self.send_all(vec![(envelope, receipt)]);
    }

    /// All records are made before the first one is handed over: the client's thread starts to send with the first.
    fn send_all(&self, messages: Vec<(Envelope, Receipt)>) {
        let (mut envelopes, mut places) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        for (envelope, receipt) in messages {
            match self.place(&envelope) {
                Ok((partition, place)) => {
                    let receipt = receipt.counted_by(&self.client.unanswered);
                    let ticket = Box::new(Ticket { receipt, topic: Arc::clone(&envelope.topic), place });
                    places.push((partition, ticket));
                    envelopes.push(envelope);
                }
                Err(error) => receipt.settle(Outcome::Failed(error)),
            }
        }
        let records = envelopes.iter().zip(places);
        self.client
            .send(records.map(|(envelope, (partition, ticket))| record::record(envelope, partition, ticket)).collect());
    }

    async fn probe(&self) -> Result<(), TransportError> {
        let client = Arc::clone(&self.client);
        blocking(move || client.probe()).await?
    }

    fn outage(&self) -> Option<FailureClass> {
        self.client.outage().map(|outage| outage.class())
    }

    async fn flush(&self, within: Duration) -> usize {
        self.client.unanswered.none_within(within).await
    }
}

fn not_sent(class: FailureClass, error: NotSent) -> TransportError {
    TransportError::new(class, error)
}

type ChooseFn = dyn Fn(&Envelope, i32) -> Option<i32> + Send + Sync;

struct Choose(Box<ChooseFn>);

impl fmt::Debug for Choose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closure")
    }
}

/// Puts a [`KafkaTransport`] together.
#[derive(Debug)]
pub struct KafkaTransportBuilder {
    config: KafkaConfig,
    partition_with: Option<Choose>,
    topics: Vec<Wanted>,
}

impl KafkaTransportBuilder {
    /// Chooses the partition of a message, given how many its topic has; `None` leaves it to the partitioner.
    ///
    /// Called in [`send`](Transport::send): it must not block. A partition that the topic does not have spends an
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
        self.partition_with = Some(Choose(Box::new(choose)));
        self
    }

    /// Makes the topic when the relay starts. Where it is there already it is [checked](Self::check_topic).
    #[must_use]
    pub fn create_topic(mut self, topic: KafkaTopic) -> Self {
        self.topics.push(Wanted { topic, create: true });
        self
    }

    /// Checks when the relay starts that the topic is there and is as given; it does not start otherwise, and the
    /// error lists every difference.
    #[must_use]
    pub fn check_topic(mut self, topic: KafkaTopic) -> Self {
        self.topics.push(Wanted { topic, create: false });
        self
    }

    /// Makes the transport. Connects in the background; a cluster that is away is no error.
    ///
    /// # Errors
    /// A setting that the client does not know, or that would break what the outbox promises.
    pub fn build(self) -> Result<KafkaTransport, KafkaConfigError> {
        let Self { config, partition_with, topics } = self;
        let checked = config.check()?;
        let (look_ups, asks) = LookUps::new();
        let client = Arc::new(Client::new(checked.client, config.secrets(), look_ups)?);
        reader::start(Arc::downgrade(&client), asks)?;
        Ok(KafkaTransport { client, config, delivery_timeout: checked.delivery_timeout, partition_with, topics })
    }
}
