//! The port to the broker: what the relay asks of it, and nothing about how.

mod fence;
pub mod header;
#[cfg(feature = "http")]
mod http;
mod in_flight;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;
mod outcome;
mod receipt;
#[cfg(feature = "rocketmq")]
mod rocketmq;

pub use fence::{FencedLane, FencedMessage, KeySequence, LaneName};
#[cfg(feature = "http")]
pub use http::{HttpConfigError, HttpResponse, HttpTarget, HttpTransport, HttpTransportBuilder};
pub use in_flight::InFlightCounter;
#[cfg(feature = "rocketmq")]
pub(crate) use in_flight::InFlightGuard;
#[cfg(feature = "kafka")]
pub use kafka::{KafkaConfig, KafkaConfigError, KafkaTopic, KafkaTransport, KafkaTransportBuilder};
pub use memory::{MemoryTransport, ScriptedResponse, WaitTimedOut};
pub use outcome::{FailureClass, Outcome, TransportError};
pub use receipt::{Receipt, ReceiptSink};
#[cfg(feature = "rocketmq")]
pub(crate) use rocketmq::{CheckAnswer, CheckRequest, HalfProducer, HalfSent};
#[cfg(feature = "rocketmq")]
pub use rocketmq::{RocketMqConfig, RocketMqConfigError, RocketMqTopic, RocketMqTransport, RocketMqTransportBuilder};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::message::Envelope;
use crate::topic::Topic;

/// Something that takes messages: Kafka, an HTTP service, or a stand-in for them.
///
/// To implement one, write `#[async_trait]` ([`diesel_outbox::async_trait`](crate::async_trait)) over it; [`InFlightCounter`]
/// counts for [`flush`](Self::flush), and [`header::of`] has what goes beside the payload. The public conformance suite (feature
/// `testing`) is the test of one, and `examples/own_transport.rs` is a small one.
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// The longest time from [`send`](Self::send) to its outcome. With the term's margin it must stay below the lease.
    fn delivery_timeout(&self) -> Duration;

    /// Makes or checks the topics, once, at start and again after an outage where it failed.
    ///
    /// # Errors
    /// A class of outage where the broker is absent: the relay starts all the same and tries again. Any other class
    /// means that the configuration does not fit the broker, and the relay does not start.
    ///
    /// # Cancel safety
    /// Dropped where a start waits for it for longer than [`PREPARE_TIMEOUT`](crate::limits::PREPARE_TIMEOUT), and where the relay
    /// ends: topics may be made or not.
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError>;

    /// Hands one message to the client. Never blocks, never waits for the broker.
    ///
    /// The outcome comes through the receipt, on any thread, once. Messages of one topic and key that are handed over in
    /// an order reach the broker in it, as long as none of them fails.
    fn send(&self, envelope: Envelope, receipt: Receipt);

    /// Hands several messages to the client, as [`send`](Self::send) does each of them, in this order.
    ///
    /// A client that sends whatever it has as soon as it has something sends fewer and larger requests when it gets a group
    /// without pauses in between; for such a client this is to be overridden.
    fn send_all(&self, messages: Vec<(Envelope, Receipt)>) {
        for (envelope, receipt) in messages {
            self.send(envelope, receipt);
        }
    }

    /// Asks the broker for a sign of life, for instance its metadata.
    ///
    /// # Errors
    /// What keeps it from answering.
    ///
    /// # Cancel safety
    /// Dropped where the relay ends: the broker may be asked or not.
    async fn probe(&self) -> Result<(), TransportError>;

    /// What the client knows of an outage by itself, before any message timed out; `None` while it knows of none.
    ///
    /// A successful [`probe`](Self::probe) clears it. Cheap: asked several times a second.
    fn outage(&self) -> Option<FailureClass> {
        None
    }

    /// How many messages it has use for at once: those under way, and a few that wait for their turn. Without a bound of
    /// its own by default.
    ///
    /// The relay hands over no more until some of these have their outcome, so that the others stay where they are,
    /// unwritten, and time out nowhere. For a client that sends few at a time; asked once, at start.
    fn in_flight_max(&self) -> usize {
        usize::MAX
    }

    /// Whether each message is a request of its own, so that a refusal is of this message, whatever is sent beside it.
    ///
    /// Of one that sends batches, as by default, a message that is [refused](FailureClass::RecordRefused) goes once more with nothing
    /// of its topic beside it before it is given up.
    fn sends_individually(&self) -> bool {
        false
    }

    /// Whether it can [`fence`](Self::fence). A relay with a [fenced](Topic::fenced) topic does not start without.
    fn supports_fencing(&self) -> bool {
        false
    }

    /// Makes sure that the broker takes nothing any more of what was handed over for a lane by its earlier owners, in
    /// whichever process, and returns the way for what follows. Takes a time that is bounded.
    ///
    /// What the broker had taken by then counts as taken before whatever the new way brings.
    ///
    /// # Errors
    /// What keeps it from doing so; by default that it cannot at all.
    ///
    /// # Cancel safety
    /// The lane may be fenced or not.
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        Err(TransportError::new(FailureClass::Topic, CannotFence(lane)))
    }

    /// Waits until everything handed over has its outcome, at most `within`; returns how many have none yet.
    ///
    /// # Cancel safety
    /// Cancelling stops the waiting only.
    async fn flush(&self, within: Duration) -> usize;
}

#[derive(Debug, thiserror::Error)]
#[error("this transport cannot fence lane {0}")]
struct CannotFence(LaneName);
