//! Reads what the earlier owners of an exactly-once lane delivered.
//!
//! The lane is fenced by then, so nothing is added any more. A transaction with a marker ends what there is to read.
//!
//! **Rejected:** reading up to the end that the broker reports. A broker that has just become the leader may report an older
//! one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};

use super::cause::code_of;
use super::context::LaneProducer;
use super::progress::{ProgressPlace, rows_of};
use super::transaction::{End, Transaction};
use crate::limits::{KAFKA_LANE_POLL, KAFKA_PROGRESS_READ, KAFKA_PROGRESS_TIMEOUT};
use crate::message::MessageId;
use crate::transport::kafka::classify::class_of;
use crate::transport::kafka::client::Client;
use crate::transport::kafka::context::Context;
use crate::transport::kafka::error::BrokerError;
use crate::transport::kafka::partition_ends::offset_at;
use crate::transport::{FailureClass, OutboxRowId, TransportError};

/// Settings of the producer that a consumer does not have.
const PRODUCER_ONLY: &[&str] = &[
    "acks",
    "batch.num.messages",
    "batch.size",
    "compression.codec",
    "compression.level",
    "compression.type",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "linger.ms",
    "message.send.max.retries",
    "message.timeout.ms",
    "msg_order_cmp",
    "partitioner",
    "produce.offset.report",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queuing.strategy",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.linger.ms",
    "transaction.timeout.ms",
    "transactional.id",
];

/// The rows that the lane has delivered and that may still be in the table. Blocks.
pub(super) fn delivered(
    client: &Arc<Client>,
    producer: &LaneProducer,
    place: &ProgressPlace,
) -> Result<Vec<OutboxRowId>, TransportError> {
    let ends_at = Instant::now() + KAFKA_PROGRESS_TIMEOUT;
    let marker = MessageId::new().as_uuid().into_bytes();
    let (end, marked_at) = mark(producer, place, &marker, ends_at).map_err(|code| failed(place, code))?;
    if end == End::MayRepeat {
        return Err(TransportError::new(FailureClass::Temporary, MarkedLate));
    }
    let reader = Reader::new(client, place, marker, marked_at)?;
    match reader.last(ends_at).map_err(|code| failed(place, code))? {
        Some(record) => rows_of(&record)
            .ok_or_else(|| TransportError::new(FailureClass::Topic, OtherVersion { topic: Arc::clone(&place.topic) })),
        None => Ok(Vec::new()),
    }
}

/// Stores the marker under a key of its own: under the lane's key, it would replace what is to be read. Returns its offset.
fn mark(producer: &LaneProducer, place: &ProgressPlace, marker: &[u8], ends_at: Instant) -> Result<(End, i64), Code> {
    producer.begin_transaction().map_err(|error| code_of(&error))?;
    let key = marker_key(place);
    let record = BaseRecord::with_opaque_to(&place.topic, 0_usize);
    let record = record.partition(place.partition).key(key.as_str()).payload(marker);
    producer.send(record).map_err(|(error, _)| code_of(&error))?;
    let marked_at = loop {
        producer.poll(KAFKA_LANE_POLL);
        if let Some((_, answer)) = producer.context().take_reports().pop() {
            break answer?.1;
        }
        // An error of the transaction, such as a missing right, leaves the record without an answer.
        match producer.begin_transaction().map_err(|error| code_of(&error)) {
            Err(code) if code != Code::State => return Err(code),
            _ if Instant::now() >= ends_at => return Err(Code::OperationTimedOut),
            _ => {}
        }
    };
    let end = Transaction { producer, ends_at }.commit_or(|_, error| code_of(error))?;
    Ok((end, marked_at))
}

fn marker_key(place: &ProgressPlace) -> String {
    format!("{}/taken-over", place.key)
}

fn failed(place: &ProgressPlace, code: Code) -> TransportError {
    let class = match class_of(code) {
        // About the progress topic, never about a message.
        FailureClass::Record | FailureClass::RecordRefused => FailureClass::Topic,
        FailureClass::Connection | FailureClass::Fatal => FailureClass::Temporary,
        class => class,
    };
    let error = BrokerError { code };
    TransportError::new(class, NotRead { topic: Arc::clone(&place.topic), partition: place.partition, error })
}

struct Reader<'a> {
    consumer: BaseConsumer<ReaderContext>,
    place: &'a ProgressPlace,
    marker: [u8; 16],
    /// The marker's offset; negative if the broker did not tell.
    marked_at: i64,
}

impl<'a> Reader<'a> {
    fn new(
        client: &Arc<Client>,
        place: &'a ProgressPlace,
        marker: [u8; 16],
        marked_at: i64,
    ) -> Result<Self, TransportError> {
        let mut config = ClientConfig::new();
        for (&name, &value) in &client.config().config_map() {
            if !PRODUCER_ONLY.contains(&name) {
                config.set(name, value);
            }
        }
        // The group has no members and no offsets; the client only requires a name.
        config.set("group.id", "diesel-outbox-progress").set("enable.auto.commit", "false");
        config.set("isolation.level", "read_committed").set("auto.offset.reset", "error");
        let consumer = config.create_with_context(ReaderContext(client.context()));
        let consumer = consumer.map_err(|error| TransportError::new(FailureClass::Topic, error))?;
        Ok(Self { consumer, place, marker, marked_at })
    }

    /// The last record of the lane before the marker.
    fn last(&self, ends_at: Instant) -> Result<Option<Vec<u8>>, Code> {
        let ProgressPlace { topic, partition, .. } = self.place;
        let offset =
            |at| offset_at(&self.consumer, topic, *partition, at, left(ends_at)).map_err(|error| code_of(&error));
        let first = offset(Offset::Beginning)?;
        // Others may have written behind the marker meanwhile.
        let end = if self.marked_at < 0 { offset(Offset::End)? } else { self.marked_at };
        let mut back = KAFKA_PROGRESS_READ;
        loop {
            let from = end.saturating_sub(back).max(first);
            let last = self.last_from(from, ends_at)?;
            if last.is_some() || from == first {
                return Ok(last);
            }
            back = back.saturating_mul(8);
        }
    }

    fn last_from(&self, from: i64, ends_at: Instant) -> Result<Option<Vec<u8>>, Code> {
        let mut start = TopicPartitionList::new();
        let assigned = start.add_partition_offset(&self.place.topic, self.place.partition, Offset::Offset(from));
        assigned.and_then(|()| self.consumer.assign(&start)).map_err(|error| code_of(&error))?;
        let (marker_key, mut last) = (marker_key(self.place), None);
        while Instant::now() < ends_at {
            match self.consumer.poll(left(ends_at)) {
                Some(Ok(record)) if record.key() == Some(self.place.key.as_bytes()) => {
                    last = record.payload().map(<[u8]>::to_vec);
                }
                Some(Ok(record)) if record.key() == Some(marker_key.as_bytes()) => {
                    if record.payload() == Some(&self.marker) {
                        return Ok(last);
                    }
                }
                Some(Ok(_)) | None => {}
                Some(Err(error)) => match code_of(&error) {
                    // The client connects again by itself.
                    Code::BrokerTransportFailure | Code::AllBrokersDown => {}
                    code => return Err(code),
                },
            }
        }
        Err(Code::OperationTimedOut)
    }
}

fn left(ends_at: Instant) -> Duration {
    ends_at.saturating_duration_since(Instant::now())
}

struct ReaderContext(Context);

impl ConsumerContext for ReaderContext {}

impl ClientContext for ReaderContext {
    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.0.log(level, facility, text);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("what the lane delivered cannot be read from partition {partition} of topic {topic:?}: {error}")]
struct NotRead {
    topic: Arc<str>,
    partition: i32,
    error: BrokerError,
}

#[derive(Debug, thiserror::Error)]
#[error("a connection broke while the lane was taken over")]
struct MarkedLate;

#[derive(Debug, thiserror::Error)]
#[error(
    "another version of this library wrote topic {topic:?}: stop the relays of the other version, or go back to it"
)]
struct OtherVersion {
    topic: Arc<str>,
}
