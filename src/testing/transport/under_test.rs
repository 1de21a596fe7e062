use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::message::{Envelope, MessageId};
use crate::transport::{FailureClass, Transport, header};

/// A broker and its transport, as the suite needs them.
///
/// Every case uses its own topics, so one broker may serve many cases at once, except those that stop it. Methods panic if the
/// broker does not do what they need: that is not the transport's failure. A method with a default need not be implemented; the
/// cases that need it then fail, and should be left out by name.
#[async_trait]
pub trait TransportUnderTest: Send + Sync {
    /// A new transport to the broker, as in an application, with as short a delivery time-out as possible: some cases wait for it.
    fn transport(&self) -> Box<dyn Transport>;

    /// The messages in a topic. Messages of one key are in the order in which they are stored.
    async fn stored(&self, topic: &str) -> Vec<StoredMessage>;

    /// The name of an empty topic that accepts messages and that no other case uses. By default a fresh name, for brokers that
    /// create topics by themselves.
    async fn new_topic(&self) -> String {
        unique_name("taken")
    }

    /// How long a healthy broker may take for everything that a case sends.
    fn max_wait(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Stops the broker; `false` if that is not possible.
    async fn go_down(&self) -> bool {
        false
    }

    /// Brings the broker back, with its messages.
    async fn go_up(&self) {}

    /// Makes the broker stop answering, with its connections open; `false` if that is not possible.
    async fn freeze(&self) -> bool {
        false
    }

    /// Makes the broker answer again, with its messages.
    async fn unfreeze(&self) {}

    /// A payload size that the transport accepts and the broker refuses for good.
    fn oversized_payload_bytes(&self) -> Option<usize> {
        None
    }

    /// The class of such a refusal: [`Record`](FailureClass::Record) if the transport gives refused messages [attempts of their
    /// own](crate::transport::TransportError::with_attempts).
    fn refusal(&self) -> FailureClass {
        FailureClass::RecordRefused
    }

    /// The name of a topic that the broker does not have and does not create.
    async fn unknown_topic(&self) -> Option<String> {
        None
    }

    /// Creates the unknown topic; `false` if that is not possible.
    async fn create_topic(&self, _name: &str) -> bool {
        false
    }

    /// A transport whose client holds at most `messages` at once.
    fn transport_with_queue_max(&self, _messages: usize) -> Option<Box<dyn Transport>> {
        None
    }

    /// A transport that the broker refuses, and the secrets that it uses.
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
    /// The broker's timestamp of the message, if it stores one: the broker expires messages by it, so it must be when the message
    /// was sent.
    pub timestamp: Option<SystemTime>,
}

impl StoredMessage {
    /// What a broker should hold of an envelope, except for the timestamp.
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

/// A topic name that nobody else uses.
pub(super) fn unique_name(kind: &str) -> String {
    format!("conformance-{kind}-{}", MessageId::new())
}
