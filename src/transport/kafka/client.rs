use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;

use super::classify::class_of;
use super::config::KafkaConfigError;
use super::context::{Context, SendContext};
use super::error::BrokerError;
use super::health::Health;
use super::metadata_lookup::{LookupRequest, MetadataLookups};
use super::partitions::Partitions;
use super::secrets::Secrets;
use crate::limits::{KAFKA_PROBE_POLL_TIMEOUT, KAFKA_PROBE_TIMEOUT, KAFKA_RECORD_BYTES_MAX};
use crate::transport::{FailureClass, InFlightCounter, Outcome, TransportError};

pub(super) type Record<'a> = BaseRecord<'a, str, [u8], Box<SendContext>>;

/// The client library's producer, replaced when it breaks, and the state of its brokers and topics.
pub(super) struct Client {
    config: ClientConfig,
    secrets: Secrets,
    producer: RwLock<Arc<Producer>>,
    pub(super) partitions: Partitions,
    pub(super) lookups: MetadataLookups,
    pub(super) in_flight: InFlightCounter,
}

/// One instance of the producer.
struct Producer {
    /// Taken only by `drop`.
    inner: Option<ThreadedProducer<Context>>,
    health: Arc<Health>,
}

impl Client {
    pub(super) fn new(
        config: ClientConfig,
        secrets: Secrets,
        lookups: MetadataLookups,
    ) -> Result<Self, KafkaConfigError> {
        let partitions = Partitions::new();
        let producer = Producer::new(&config, &secrets, &lookups, &partitions)?;
        let producer = RwLock::new(Arc::new(producer));
        Ok(Self { config, secrets, producer, partitions, lookups, in_flight: InFlightCounter::new() })
    }

    /// The callbacks of another producer, with its own health.
    pub(super) fn context(&self) -> Context {
        Context {
            health: Arc::default(),
            lookups: self.lookups.clone(),
            secrets: self.secrets.clone(),
            activity: Arc::clone(self.partitions.activity()),
        }
    }

    /// The most bytes of a record: `message.max.bytes`, or the client's default for it.
    pub(super) fn record_bytes_max(&self) -> usize {
        let set = self.config.get("message.max.bytes").and_then(|bytes| bytes.parse().ok());
        set.unwrap_or(KAFKA_RECORD_BYTES_MAX)
    }

    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Hands records to the producer, and reports those that it refuses.
    pub(super) fn send(&self, records: Vec<Record<'_>>) {
        // The lock is held for the calls only, which do not block. Outcomes are reported outside it, because a sink may
        // send again.
        for (send_context, outcome) in self.hand_over(records) {
            send_context.return_unsent(outcome);
        }
    }

    fn hand_over(&self, records: Vec<Record<'_>>) -> Vec<(Box<SendContext>, Outcome)> {
        let producer = self.producer();
        let hand_over = |record: Record<'_>| {
            if let Some(outage) = producer.health.refusal() {
                return Some((record.delivery_opaque, Outcome::Failed(outage)));
            }
            let (error, record) = producer.inner().send(record).err()?;
            let code = error.rdkafka_error_code().unwrap_or(Code::InvalidArgument);
            if class_of(code) == FailureClass::Topic {
                self.lookups.request(LookupRequest::Topic(Arc::clone(&record.delivery_opaque.topic)));
            }
            Some((record.delivery_opaque, refused(code)))
        };
        records.into_iter().filter_map(hand_over).collect()
    }

    /// Checks that the brokers answer; replaces a broken producer first. Blocks.
    pub(super) fn probe(&self) -> Result<(), TransportError> {
        self.replace_if_fatal().map_err(|error| TransportError::new(FailureClass::Fatal, error))?;
        let producer = Arc::clone(&self.producer());
        let topic = self.known_topics().into_iter().next();
        let ends_at = Instant::now() + KAFKA_PROBE_TIMEOUT;
        loop {
            let Err(error) = producer.fetch_metadata(topic.as_ref(), KAFKA_PROBE_POLL_TIMEOUT) else { return Ok(()) };
            let outage = producer.health.outage();
            let is_settled = outage.as_ref().is_some_and(|outage| outage.class() != FailureClass::Connection);
            if is_settled || Instant::now() >= ends_at {
                return Err(outage.unwrap_or_else(|| no_response_error(error.rdkafka_error_code())));
            }
        }
    }

    /// Why the producer would refuse a record now.
    pub(super) fn outage(&self) -> Option<TransportError> {
        self.producer().health.refusal()
    }

    /// Reads a topic's partitions. Blocks up to `within`. A missing topic changes nothing.
    pub(super) fn refresh_partitions(&self, topic: &Arc<str>, within: Duration) -> Result<(), TransportError> {
        let producer = Arc::clone(&self.producer());
        let metadata = producer.inner().client().fetch_metadata(Some(topic), within);
        let metadata = metadata.map_err(|error| self.failed(error.rdkafka_error_code()))?;
        producer.health.answered();
        for found in metadata.topics() {
            if found.name() == &**topic && found.error().is_none() && !found.partitions().is_empty() {
                let led: Vec<bool> = found.partitions().iter().map(|partition| partition.leader() >= 0).collect();
                self.partitions.update(topic, &led);
            }
        }
        Ok(())
    }

    /// Whether a broker is connected; asks for metadata if none is. Blocks up to `within`.
    pub(super) fn is_reachable(&self, within: Duration) -> bool {
        let producer = Arc::clone(&self.producer());
        !producer.health.is_all_down() || producer.fetch_metadata(self.known_topics().first(), within).is_ok()
    }

    pub(super) fn known_topics(&self) -> Vec<Arc<str>> {
        self.partitions.topics()
    }

    pub(super) fn config_error(&self, error: KafkaError) -> TransportError {
        TransportError::new(FailureClass::Fatal, self.config_problem(error))
    }

    pub(super) fn config_problem(&self, error: KafkaError) -> KafkaConfigError {
        KafkaConfigError::from_client(error, &self.secrets)
    }

    /// The class and cause of another client's failed request.
    pub(super) fn failed(&self, code: Option<Code>) -> TransportError {
        let class = code.map_or(FailureClass::Connection, class_of);
        match self.producer().health.outage() {
            Some(outage) if class == FailureClass::Temporary || class.is_outage() => outage,
            _ => no_response_error(code),
        }
    }

    /// Whether no broker can be reached, as far as the producer's connections show.
    pub(super) fn is_out(&self) -> bool {
        self.producer().health.outage().is_some()
    }

    fn replace_if_fatal(&self) -> Result<(), KafkaConfigError> {
        if !self.producer().is_broken() {
            return Ok(());
        }
        let fresh = Arc::new(Producer::new(&self.config, &self.secrets, &self.lookups, &self.partitions)?);
        let mut producer = self.producer.write().unwrap_or_else(PoisonError::into_inner);
        // Two probes may get here at once; the second one finds a working producer.
        if producer.is_broken() {
            *producer = fresh;
        }
        Ok(())
    }

    fn producer(&self) -> RwLockReadGuard<'_, Arc<Producer>> {
        self.producer.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Producer {
    fn new(
        config: &ClientConfig,
        secrets: &Secrets,
        lookups: &MetadataLookups,
        partitions: &Partitions,
    ) -> Result<Self, KafkaConfigError> {
        let health = Arc::new(Health::default());
        let activity = Arc::clone(partitions.activity());
        let context =
            Context { health: Arc::clone(&health), lookups: lookups.clone(), secrets: secrets.clone(), activity };
        let inner = config.create_with_context(context);
        let inner = inner.map_err(|error| KafkaConfigError::from_client(error, secrets))?;
        Ok(Self { inner: Some(inner), health })
    }

    fn is_broken(&self) -> bool {
        self.inner().client().fatal_error().is_some()
    }

    /// Fetches the metadata of one topic, which keeps the answer small, or of the whole cluster.
    fn fetch_metadata(&self, topic: Option<&Arc<str>>, within: Duration) -> Result<(), KafkaError> {
        self.inner().client().fetch_metadata(topic.map(|topic| &**topic), within)?;
        self.health.answered();
        Ok(())
    }

    fn inner(&self) -> &ThreadedProducer<Context> {
        self.inner.as_ref().unwrap_or_else(|| unreachable!("only drop takes it"))
    }
}

impl Drop for Producer {
    /// Purges what it holds; the outcome senders report that within half a second.
    ///
    /// On its own thread: the call waits for the producer's thread. That thread may be the one that runs this drop, in
    /// the sink of the last outcome sender.
    fn drop(&mut self) {
        let inner = self.inner.take();
        let closing = thread::Builder::new().name("outbox-kafka-close".to_owned()).spawn(move || drop(inner));
        // If no thread could be started, the closure was dropped here, and the producer with it.
        drop(closing);
    }
}

/// The outcome of a record that the producer refused.
fn refused(code: Code) -> Outcome {
    match code {
        Code::QueueFull => Outcome::Busy,
        code => Outcome::Failed(TransportError::new(class_of(code), BrokerError { code })),
    }
}

fn no_response_error(code: Option<Code>) -> TransportError {
    let code = code.unwrap_or(Code::BrokerTransportFailure);
    let class = match class_of(code) {
        FailureClass::Temporary => FailureClass::Connection,
        class => class,
    };
    TransportError::new(class, BrokerError { code })
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = Arc::clone(&self.producer().health);
        f.debug_struct("Client").field("health", &health).field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
