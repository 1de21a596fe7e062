//! Fenced lanes: each has its own producer with a transactional id.

mod cause;
mod context;
mod job;
pub(super) mod progress;
mod recover;
mod transaction;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{fmt, thread};

use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;

use self::cause::{EndReason, code_of};
use self::context::{LaneContext, LaneProducer, log_disconnects};
use self::job::Job;
use self::progress::{Progress, ProgressPlace};
use self::worker::Worker;
use super::classify::class_of;
use super::client::Client;
use super::config::KafkaConfigError;
use super::error::BrokerError;
use super::partitioner::Partitioner;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{KAFKA_COMMIT_TIMEOUT, KAFKA_FENCE_TIMEOUT, KAFKA_LANE_DRAIN};
use crate::transport::{FailureClass, FencedLane, FencedMessage, LaneName, OutboxRow, OutboxRowId, TransportError};

/// Checks that a lane's client accepts these settings: it refuses some that the plain client accepts. Blocks, but
/// contacts no broker.
pub(super) fn check(client: &Arc<Client>, delivery_timeout: Duration) -> Result<(), TransportError> {
    producer(client, "diesel-outbox-check", delivery_timeout).map(drop)
}

/// A lane whose earlier producers the brokers refuse. Their open transactions are aborted.
pub(super) struct Fence {
    id: String,
    partitioner: Arc<Partitioner>,
    /// Taken when the lane opens.
    producer: Option<LaneProducer>,
    delivery_timeout: Duration,
    place: Option<ProgressPlace>,
}

impl Fence {
    /// Creates the lane's producer. Blocks.
    pub(super) fn new(
        partitioner: Arc<Partitioner>,
        id: String,
        delivery_timeout: Duration,
    ) -> Result<Self, TransportError> {
        let own_id = is_injected(InjectedBug::FenceSkipped).then(|| format!("{id}-{}", std::process::id()));
        let producer = producer(&partitioner.client, own_id.as_deref().unwrap_or(&id), delivery_timeout)?;
        producer.init_transactions(KAFKA_FENCE_TIMEOUT).map_err(|error| failed(&producer, &error))?;
        Ok(Self { id, partitioner, producer: Some(producer), delivery_timeout, place: None })
    }

    /// Makes the lane note what it delivers. Returns what it has delivered so far and may have to settle. Blocks.
    pub(super) fn recover(&mut self, lane: &LaneName) -> Result<Vec<OutboxRowId>, TransportError> {
        let place = ProgressPlace::new(lane, &self.id);
        let producer = self.producer.as_ref().expect("the lane is not open yet");
        let delivered = recover::delivered(&self.partitioner.client, producer, &place)?;
        self.place = Some(place);
        Ok(if is_injected(InjectedBug::DeliveredForgotten) { Vec::new() } else { delivered })
    }

    /// Starts the lane. `delivered` is what it must not send again.
    pub(super) fn open(mut self, delivered: Vec<OutboxRow>) -> Result<Arc<dyn FencedLane>, TransportError> {
        let producer = self.producer.take().expect("the lane opens once");
        let (sender, jobs) = channel();
        let is_open = Arc::new(AtomicBool::new(true));
        let bytes_max = self.partitioner.client.record_bytes_max();
        let progress = self.place.take().map(|place| Progress::new(place, delivered, bytes_max));
        let delivery_timeout = self.delivery_timeout;
        let worker = Worker { producer, jobs, is_open: Arc::clone(&is_open), delivery_timeout, progress };
        let started = thread::Builder::new().name("outbox-kafka-lane".to_owned()).spawn(move || worker.run());
        started.map_err(|error| TransportError::new(FailureClass::Temporary, error))?;
        let (id, partitioner) = (std::mem::take(&mut self.id), Arc::clone(&self.partitioner));
        Ok(Arc::new(KafkaLane { id, partitioner, jobs: sender, is_open }))
    }
}

impl Drop for Fence {
    /// A producer's end blocks, and a lane that is not opened is dropped by the runtime.
    fn drop(&mut self) {
        if let Some(producer) = self.producer.take() {
            let _ = thread::Builder::new().name("outbox-kafka-wait".to_owned()).spawn(move || drop(producer));
        }
    }
}

fn producer(client: &Arc<Client>, id: &str, delivery_timeout: Duration) -> Result<LaneProducer, TransportError> {
    let mut config = client.config().clone();
    config.set("transactional.id", id).set("enable.idempotence", "true");
    if config.get("transaction.timeout.ms").is_none() {
        // What nobody ends by then, because every node is gone, holds back who reads only what is committed.
        let timeout = delivery_timeout + 2 * KAFKA_COMMIT_TIMEOUT;
        config.set("transaction.timeout.ms", timeout.as_millis().to_string());
    }
    log_disconnects(&mut config);
    let context = LaneContext::new(Arc::clone(client));
    // An error of the fenced topics only: plain topics go on.
    let refused = |error| TransportError::new(FailureClass::Topic, LaneConfigError(client.config_problem(error)));
    config.create_with_context(context).map_err(refused)
}

#[derive(Debug, thiserror::Error)]
#[error("the client of a fenced topic, which has a transactional id, refuses the Kafka settings: {0}")]
struct LaneConfigError(KafkaConfigError);

/// Why a lane could not be fenced.
fn failed(producer: &LaneProducer, error: &KafkaError) -> TransportError {
    // The cause of a connection failure is among its events.
    producer.poll(KAFKA_LANE_DRAIN);
    let code = code_of(error);
    let class = match class_of(code) {
        // About the transactional id: a missing right, or a time-out above the cluster's. It breaks this client as
        // well, which is no outage.
        FailureClass::Record | FailureClass::RecordRefused | FailureClass::Topic => FailureClass::Topic,
        class => match producer.context().outage() {
            Some(outage) => return outage,
            // This client is dropped, and no other is affected.
            None if class == FailureClass::Fatal || class == FailureClass::Connection => FailureClass::Temporary,
            None => class,
        },
    };
    TransportError::new(class, BrokerError { code })
}

struct KafkaLane {
    id: String,
    partitioner: Arc<Partitioner>,
    jobs: Sender<Vec<Job>>,
    is_open: Arc<AtomicBool>,
}

impl FencedLane for KafkaLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        let mut jobs = Vec::with_capacity(messages.len());
        for FencedMessage { envelope, sender, sequence, row } in messages {
            let sender = sender.tracked_by(&self.partitioner.client.in_flight);
            let placed = self.partitioner.place(&envelope);
            let mut job =
                Job { envelope, sender, sequence, row, partition: None, place: None, precedes_failure: false };
            match placed {
                Ok(placed) => {
                    (job.partition, job.place) = placed;
                    jobs.push(job);
                }
                Err(error) => job.fail(error),
            }
        }
        if let Err(rest) = self.jobs.send(jobs) {
            // The worker panicked.
            rest.0.into_iter().for_each(|job| job.fail(EndReason::behind().error()));
        }
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

impl fmt::Debug for KafkaLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaLane").field("id", &self.id).field("is_open", &self.is_open).finish_non_exhaustive()
    }
}
