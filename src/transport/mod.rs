//! The interface to the broker: what the relay needs from it.

mod exactly_once;
mod fence;
pub mod header;
#[cfg(feature = "http")]
mod http;
mod in_flight;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;
mod outcome;
mod outcome_sender;
#[cfg(feature = "rocketmq")]
mod rocketmq;

#[cfg(any(feature = "kafka", feature = "testing"))]
pub(crate) use exactly_once::OutboxRowId;
pub(crate) use exactly_once::{DeliveredRows, row_of};
pub use exactly_once::{OutboxRow, RowLookup};
pub use fence::{FencedLane, FencedMessage, KeySequence, LaneName};
#[cfg(feature = "http")]
pub use http::{HttpConfigError, HttpResponse, HttpTarget, HttpTransport, HttpTransportBuilder};
pub use in_flight::InFlightCounter;
#[cfg(feature = "rocketmq")]
pub(crate) use in_flight::InFlightGuard;
#[cfg(feature = "kafka")]
pub use kafka::{KafkaConfig, KafkaConfigError, KafkaTopic, KafkaTransport, KafkaTransportBuilder};
#[cfg(feature = "kafka")]
#[allow(unused_imports, reason = "only consumers use them")]
pub(crate) use kafka::{Secrets, log_line, log_statistics, offset_at};
pub use memory::{MemoryTransport, ScriptedResponse, WaitTimedOut};
pub use outcome::{FailureClass, Outcome, TransportError};
pub use outcome_sender::OutcomeSender;
pub(crate) use outcome_sender::OutcomeSink;
#[cfg(all(
    feature = "rocketmq",
    any(feature = "postgres", feature = "mysql", feature = "sqlite"),
    any(feature = "r2d2", feature = "deadpool", feature = "bb8", feature = "mobc")
))]
pub(crate) use rocketmq::{Answer, Line, QueuedRecord, Requests, Route};
#[cfg(feature = "rocketmq")]
pub(crate) use rocketmq::{CheckRequest, CheckResponse, HalfProducer, HalfSent};
#[cfg(feature = "rocketmq")]
pub use rocketmq::{
    RocketMqConfig, RocketMqConfigError, RocketMqRecord, RocketMqTopic, RocketMqTransport, RocketMqTransportBuilder,
};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::message::Envelope;
use crate::topic::Topic;

/// A destination of messages: Kafka, RocketMQ, an HTTP service, or a fake.
///
/// Write `#[async_trait]` ([`diesel_outbox::async_trait`](crate::async_trait)) over an implementation.
/// [`InFlightCounter`] counts for [`flush`](Self::flush), and [`Envelope::all_headers`] returns the headers to send. Test it with the
/// public conformance suite (feature `testing`). `examples/own_transport.rs` is a small implementation.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// The longest time from [`send`](Self::send) to its outcome. With the lease's safety margin it must stay below the
    /// lease.
    fn delivery_timeout(&self) -> Duration;

    /// Creates or checks the topics: at start, and again after an outage that made it fail.
    ///
    /// # Errors
    /// A class of outage if the broker is unreachable: the relay starts anyway and tries again. Any other class means
    /// that the configuration does not fit the broker, and the relay does not start.
    ///
    /// # Cancel safety
    /// Cancelled after 20 s at start, and when the relay stops. The topics may or may not be created by then.
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError>;

    /// Hands one message to the client. Never blocks, never waits for the broker.
    ///
    /// The outcome arrives through the outcome sender, once, on any thread. Messages of one topic and key reach the broker in
    /// the order of their calls, as long as none of them fails.
    fn send(&self, envelope: Envelope, sender: OutcomeSender);

    /// Hands several messages to the client, in this order, as [`send`](Self::send) does for each.
    ///
    /// Override this for a client that sends as soon as it has a message: without pauses in between it sends fewer and
    /// larger requests.
    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        for (envelope, sender) in messages {
            self.send(envelope, sender);
        }
    }

    /// Checks that the broker answers, for instance with a request for metadata.
    ///
    /// # Errors
    /// Returns why the broker does not answer.
    ///
    /// # Cancel safety
    /// Cancelled when the relay stops. The broker may or may not have been asked by then.
    async fn probe(&self) -> Result<(), TransportError>;

    /// The outage that the client has detected by itself, before any message timed out; `None` if there is none.
    ///
    /// A successful [`probe`](Self::probe) clears it. Must be cheap: called several times a second.
    fn outage(&self) -> Option<FailureClass> {
        None
    }

    /// How many messages the transport can take at once: those in flight, and a few that wait. No limit by default.
    ///
    /// The relay hands over no more until some of these have their outcome. Other messages wait in the database unchanged, and
    /// cannot time out. Set it for a client that sends few messages at a time. Called once, at start.
    fn in_flight_max(&self) -> usize {
        usize::MAX
    }

    /// Whether each message is its own request, so that a refusal is about this message alone.
    ///
    /// If the transport sends batches, as by default, a [refused](FailureClass::RecordRefused) message is sent once
    /// more with nothing else of its topic. Only then does it become a dead letter.
    fn sends_individually(&self) -> bool {
        false
    }

    /// The kind of broker, as OpenTelemetry's attribute `messaging.system` names it: `kafka`, `rocketmq`, or a word of your own.
    fn system(&self) -> &'static str {
        "diesel_outbox"
    }

    /// Whether the transport supports [`fence`](Self::fence). Without it, a relay with a [fenced](Topic::fenced) topic does not
    /// start.
    fn supports_fencing(&self) -> bool {
        false
    }

    /// Fences a lane: the broker accepts nothing more from the lane's earlier owners, in any process. Returns the
    /// lane's new connection. Takes a bounded time.
    ///
    /// What the broker had accepted by then counts as stored before anything that the new connection sends.
    ///
    /// # Errors
    /// Returns why the lane could not be fenced; by default, that the transport does not support it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lane may or may not be fenced.
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        Err(TransportError::new(FailureClass::Topic, CannotFence(lane)))
    }

    /// Whether the transport supports [`fence_exactly_once`](Self::fence_exactly_once). Without it, a relay with an
    /// [exactly-once](Topic::exactly_once) topic does not start.
    fn supports_exactly_once(&self) -> bool {
        false
    }

    /// Fences a lane like [`fence`](Self::fence), for a topic that is [exactly once](Topic::exactly_once). The broker stores
    /// with the messages which rows they are. A row that is handed over again is reported as delivered, and not sent.
    ///
    /// `rows` tells which of the rows that the broker knows are still in the table: the others can be forgotten.
    ///
    /// # Errors
    /// Returns why the lane could not be fenced, or what it has delivered could not be read; by default, that the transport does
    /// not support it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lane may or may not be fenced.
    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let _ = rows;
        Err(TransportError::new(FailureClass::Topic, CannotFence(lane)))
    }

    /// Waits until everything handed over has its outcome, at most `within`. Returns how many have none yet.
    ///
    /// # Cancel safety
    /// Cancelling only stops the wait.
    async fn flush(&self, within: Duration) -> usize;
}

#[derive(Debug, thiserror::Error)]
#[error("this transport cannot fence lane {0}")]
struct CannotFence(LaneName);
