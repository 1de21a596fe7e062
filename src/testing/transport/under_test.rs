use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::message::{Envelope, MessageId};
use crate::transport::{FailureClass, Transport, header};

/// A broker with a transport to it, as the suite needs them.
///
/// Every case asks for topics of its own, so one broker may serve many cases at once, except those that take it down.
/// Methods panic where the broker does not do what they need: that is no case of the transport. What has a default may be left to
/// it; the cases that need it then fail, and are to be left out by their names.
#[async_trait]
pub trait TransportUnderTest: Send + Sync {
    /// A new transport to the broker, as an application would have it, with as short a delivery time-out as it can
    /// have: some cases wait for it.
    fn transport(&self) -> Box<dyn Transport>;

    /// What the broker holds of a topic. Messages of one key are in the order in which they are stored.
    async fn stored(&self, topic: &str) -> Vec<StoredMessage>;

    /// The name of a topic that takes messages and holds none, and that no other case knows. By default a fresh name,
    /// for brokers that make topics by themselves.
    async fn new_topic(&self) -> String {
        unique_name("taken")
    }

    /// How long a healthy broker may take for all that a case sends.
    fn max_wait(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Takes the broker away; `false` where that cannot be done.
    async fn go_down(&self) -> bool {
        false
    }

    /// Brings the broker back, with what it held.
    async fn go_up(&self) {}

    /// Makes the broker say nothing from now on, with its connections open; `false` where that cannot be done.
    async fn freeze(&self) -> bool {
        false
    }

    /// Lets the broker answer again, with what it held.
    async fn unfreeze(&self) {}

    /// Bytes of a payload that the transport takes and the broker refuses for good.
    fn oversized_payload_bytes(&self) -> Option<usize> {
        None
    }

    /// What such a refusal is: [`Record`](FailureClass::Record) where the transport gives refused messages
    /// [attempts of their own](crate::transport::TransportError::with_attempts).
    fn refusal(&self) -> FailureClass {
        FailureClass::RecordRefused
    }

    /// The name of a topic that the broker does not have and does not make.
    async fn unknown_topic(&self) -> Option<String> {
        None
    }

    /// Makes the topic that was unknown; `false` where that cannot be done.
    async fn create_topic(&self, _name: &str) -> bool {
        false
    }

    /// A transport whose client takes at most `messages` at once.
    fn transport_with_queue_max(&self, _messages: usize) -> Option<Box<dyn Transport>> {
        None
    }

    /// A transport that the broker does not let in, with the secrets it was given.
    fn unauthorized_transport(&self) -> Option<(Box<dyn Transport>, Vec<String>)> {
        None
    }
}

/// A message as a consumer gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Every header in order, the outbox's own included.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The broker's time of the message, where it keeps one: by which it throws away what is old, and so when it was sent.
    pub timestamp: Option<SystemTime>,
}

impl StoredMessage {
    /// What a broker should hold of an envelope, but for when it was sent.
    pub fn of(envelope: &Envelope) -> Self {
        let mut headers = vec![(header::MESSAGE_ID.to_owned(), envelope.message_id.to_string().into_bytes())];
        if !envelope.kind.is_empty() {
            headers.push((header::KIND.to_owned(), envelope.kind.clone().into_bytes()));
        }
        if envelope.attempt > 1 {
            headers.push((header::ATTEMPT.to_owned(), envelope.attempt.to_string().into_bytes()));
        }
        headers.push((header::CREATED_AT.to_owned(), header::millis(envelope.created_at).to_string().into_bytes()));
        if let Some(at) = envelope.deliver_at {
            headers.push((header::DELIVER_AT.to_owned(), header::millis(at).to_string().into_bytes()));
        }
        headers.extend(envelope.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        Self {
            key: envelope.key.clone().map(String::into_bytes),
            payload: envelope.payload.clone(),
            headers,
            timestamp: None,
        }
    }

    /// The message id it carries.
    pub fn message_id(&self) -> Option<MessageId> {
        let (_, id) = self.headers.iter().find(|(name, _)| name == header::MESSAGE_ID)?;
        std::str::from_utf8(id).ok()?.parse().ok()
    }
}

/// A topic's name that nobody else has.
pub(super) fn unique_name(kind: &str) -> String {
    format!("conformance-{kind}-{}", MessageId::new())
}
