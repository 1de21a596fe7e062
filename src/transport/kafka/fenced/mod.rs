//! Fenced lanes: each has its own producer with a transactional id.

mod cause;
mod context;
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
use self::transaction::Job;
use self::worker::Worker;
use super::classify::class_of;
use super::client::Client;
use super::config::KafkaConfigError;
use super::error::BrokerError;
use super::partitioner::Partitioner;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{KAFKA_COMMIT_TIMEOUT, KAFKA_FENCE_TIMEOUT, KAFKA_LANE_DRAIN};
use crate::transport::{FailureClass, FencedLane, FencedMessage, TransportError};

/// Checks that a lane's client accepts these settings: it refuses some that the plain client accepts. Blocks, but
/// contacts no broker.
pub(super) fn check(client: &Arc<Client>, delivery_timeout: Duration) -> Result<(), TransportError> {
    producer(client, "diesel-outbox-check", delivery_timeout).map(drop)
}

/// Creates a lane's producer. The brokers then refuse earlier producers of the lane and abort their open transactions.
/// Blocks.
pub(super) fn fence(
    partitioner: Arc<Partitioner>,
    id: String,
    delivery_timeout: Duration,
) -> Result<Arc<dyn FencedLane>, TransportError> {
    let id = if is_injected(InjectedBug::FenceSkipped) { format!("{id}-{}", std::process::id()) } else { id };
    let producer = producer(&partitioner.client, &id, delivery_timeout)?;
    producer.init_transactions(KAFKA_FENCE_TIMEOUT).map_err(|error| failed(&producer, &error))?;
    let (sender, jobs) = channel();
    let is_open = Arc::new(AtomicBool::new(true));
    let worker = Worker { producer, jobs, is_open: Arc::clone(&is_open), delivery_timeout };
    let started = thread::Builder::new().name("outbox-kafka-lane".to_owned()).spawn(move || worker.run());
    started.map_err(|error| TransportError::new(FailureClass::Temporary, error))?;
    Ok(Arc::new(KafkaLane { id, partitioner, jobs: sender, is_open }))
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
        for FencedMessage { envelope, receipt, sequence } in messages {
            let receipt = receipt.tracked_by(&self.partitioner.client.in_flight);
            let placed = self.partitioner.place(&envelope);
            let mut job = Job { envelope, receipt, sequence, partition: None, place: None, precedes_failure: false };
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
