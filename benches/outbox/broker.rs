//! The broker's side: topics, and a plain producer as the baseline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use diesel_outbox::{Envelope, MessageId};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;

use crate::application::{self, PAYLOAD_BYTES};
use crate::reader::Reader;

/// The partitions of every topic here.
pub(crate) const PARTITIONS: i32 = 3;
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long one check for leaders takes at most: it connects and asks.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
const WARM_UP: Duration = Duration::from_secs(40);
const WARM_UP_MESSAGES: usize = 1_000_000;
const WARM_UP_BURST: usize = 20;
const WARM_UP_TOPIC: &str = "warm-up";

/// Creates topics, and returns when the broker knows them.
pub(crate) async fn make_topics(bootstrap: &str, names: &[&str]) -> Result<()> {
    make_topics_with(bootstrap, names, PARTITIONS).await
}

/// The same with this many partitions.
pub(crate) async fn make_topics_with(bootstrap: &str, names: &[&str], partitions: i32) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
    let topics: Vec<_> = names.iter().map(|name| NewTopic::new(name, partitions, TopicReplication::Fixed(1))).collect();
    for made in admin.create_topics(&topics, &AdminOptions::new().operation_timeout(Some(TIMEOUT))).await? {
        match made {
            Ok(_) | Err((_, Code::TopicAlreadyExists)) => {}
            Err((name, code)) => bail!("the topic {name} could not be created: {code}"),
        }
    }
    Ok(())
}

/// Deletes a topic, so that the disk does not fill.
pub(crate) async fn delete_topic(bootstrap: &str, name: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
    for deleted in admin.delete_topics(&[name], &AdminOptions::new().operation_timeout(Some(TIMEOUT))).await? {
        deleted.map_err(|(name, code)| anyhow::anyhow!("the topic {name} could not be deleted: {code}"))?;
    }
    Ok(())
}

/// How many messages are in a topic.
pub(crate) fn stored(bootstrap: &str, topic: &str) -> Result<u64> {
    Reader::new(bootstrap, topic)?.count()
}

/// Whether a new client sees a leader for every partition of the topic.
pub(crate) fn has_leaders(bootstrap: &str, topic: &str) -> bool {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("reconnect.backoff.max.ms", "100");
    // A missing broker is expected here.
    config.set_log_level(RDKafkaLogLevel::Emerg);
    let consumer = config.create();
    let response = consumer.and_then(|consumer: BaseConsumer| consumer.fetch_metadata(Some(topic), POLL_INTERVAL));
    let topics = response.as_ref().map(|metadata| metadata.topics()).unwrap_or_default();
    topics.iter().any(|found| {
        let partitions = found.partitions();
        !partitions.is_empty()
            && partitions.iter().all(|partition| partition.leader() >= 0 && partition.error().is_none())
    })
}

/// Sends small bursts for a while, of records with and without headers. Until a JVM has compiled its hot code, a
/// message costs it several times as much, and the first legs would pay for it.
pub(crate) async fn warm_up(bootstrap: &str) -> Result<()> {
    make_topics(bootstrap, &[WARM_UP_TOPIC]).await?;
    let bare = BareProducer::new(bootstrap, WARM_UP_TOPIC, WARM_UP_MESSAGES, &[])?;
    let mut envelope = application::envelope(WARM_UP_TOPIC);
    let end = Instant::now() + WARM_UP;
    for burst in (0..WARM_UP_MESSAGES).step_by(WARM_UP_BURST) {
        if Instant::now() > end {
            break;
        }
        for number in burst..burst + WARM_UP_BURST {
            let key = number.to_string();
            if number.is_multiple_of(2) {
                bare.send(WARM_UP_TOPIC, number, &key, &[b'x'; PAYLOAD_BYTES])?;
            } else {
                envelope.key = Some(key);
                bare.send_as_relayed(number, &envelope)?;
            }
        }
        bare.until_delivered(burst + WARM_UP_BURST)?;
    }
    Ok(())
}

/// Fills a topic with records as a relay sends them. Each has an id of its own, and the key of its number.
pub(crate) fn fill(bootstrap: &str, topic: &str, records: usize, key: impl Fn(usize) -> Option<String>) -> Result<()> {
    // Else records without a key would come in runs, and not as many in each partition. The producer's first record goes elsewhere.
    let settings = [("sticky.partitioning.linger.ms", "0")];
    let producer = BareProducer::new(bootstrap, WARM_UP_TOPIC, records, &settings)?;
    let mut envelope = application::envelope(topic);
    for number in 0..records {
        (envelope.message_id, envelope.key) = (MessageId::new(), key(number));
        producer.send_as_relayed(number, &envelope)?;
    }
    producer.until_delivered(records)
}

/// A plain `ThreadedProducer` with the settings of `KafkaTransport`.
///
/// Its queue keeps librdkafka's limit of 100,000 messages, five times what a relay has in flight: a user of rdkafka
/// alone would not lower it, and the larger queue is faster.
pub(crate) struct BareProducer {
    producer: ThreadedProducer<Callbacks>,
    delivered: Arc<Delivered>,
}

/// When each message was acknowledged.
#[derive(Debug)]
struct Delivered {
    started: Instant,
    /// Nanoseconds since the start, by the message's number; 0 means not yet.
    at: Vec<AtomicUsize>,
    count: AtomicUsize,
    failed: AtomicUsize,
}

struct Callbacks(Arc<Delivered>);

impl ClientContext for Callbacks {}

impl ProducerContext for Callbacks {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let Delivered { started, at, count, failed } = &*self.0;
        at[number].store(started.elapsed().as_nanos() as usize, Ordering::Relaxed);
        if result.is_err() {
            failed.fetch_add(1, Ordering::Relaxed);
        }
        count.fetch_add(1, Ordering::Release);
    }
}

impl BareProducer {
    /// A producer for at most `messages` messages, with further `settings`. It has sent one extra: it is connected and has its
    /// producer id.
    pub(crate) fn new(bootstrap: &str, topic: &str, messages: usize, settings: &[(&str, &str)]) -> Result<Self> {
        let delivered = Arc::new(Delivered {
            started: Instant::now(),
            at: (0..=messages).map(|_| AtomicUsize::new(0)).collect(),
            count: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        });
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("acks", "all").set("enable.idempotence", "true");
        config.set("linger.ms", "0").set("partitioner", "murmur2_random").set("message.timeout.ms", "25000");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        let producer: ThreadedProducer<Callbacks> = config.create_with_context(Callbacks(Arc::clone(&delivered)))?;
        let this = Self { producer, delivered };
        this.send(topic, messages, "", b"")?;
        this.until_delivered(1)?;
        this.delivered.count.store(0, Ordering::Release);
        Ok(this)
    }

    /// Sends one message with only key and payload. Waits if the queue is full.
    pub(crate) fn send(&self, topic: &str, number: usize, key: &str, payload: &[u8]) -> Result<()> {
        self.produce(BaseRecord::with_opaque_to(topic, number).key(key).payload(payload))
    }

    /// The same with the record that a relay makes of the message: with headers.
    pub(crate) fn send_as_relayed(&self, number: usize, envelope: &Envelope) -> Result<()> {
        let headers = OwnedHeaders::new_with_capacity(envelope.headers.len() + 5);
        let headers = envelope
            .all_headers()
            .fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(&*value) }));
        self.produce(BaseRecord {
            topic: &envelope.topic,
            partition: None,
            payload: envelope.payload.as_deref(),
            key: envelope.key.as_deref(),
            timestamp: None,
            headers: Some(headers),
            delivery_opaque: number,
        })
    }

    #[expect(clippy::disallowed_methods, reason = "librdkafka has no call that waits for room")]
    fn produce(&self, mut record: BaseRecord<'_, str, [u8], usize>) -> Result<()> {
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(Code::QueueFull), returned)) => record = returned,
                Err((error, _)) => return Err(error).context("send"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Nanoseconds since the producer was created.
    pub(crate) fn now(&self) -> usize {
        self.delivered.started.elapsed().as_nanos() as usize
    }

    /// Waits until all `messages` are delivered. Returns when each was, in nanoseconds as [`now`](Self::now) counts
    /// them.
    pub(crate) fn wait(&self, messages: usize) -> Result<Vec<usize>> {
        self.until_delivered(messages)?;
        Ok(self.delivered.at[..messages].iter().map(|at| at.load(Ordering::Relaxed)).collect())
    }

    /// The same for a sender in bursts: copying the times of all earlier ones would cost more with each burst.
    #[expect(clippy::disallowed_methods, reason = "an atomic is watched by polling, with a deadline")]
    pub(crate) fn until_delivered(&self, messages: usize) -> Result<()> {
        let end = Instant::now() + TIMEOUT;
        while self.delivered.count.load(Ordering::Acquire) < messages {
            if Instant::now() > end {
                bail!("{} of {messages} delivered", self.delivered.count.load(Ordering::Acquire));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.delivered.failed.load(Ordering::Relaxed) {
            0 => Ok(()),
            failed => bail!("{failed} of {messages} failed"),
        }
    }
}
