use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Headers, MessageId};

/// A message in the form that a transport gets.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The same in every copy of the message.
    pub message_id: MessageId,
    /// Where it goes.
    pub topic: Arc<str>,
    /// What it is about.
    pub key: Option<String>,
    /// What happened; may be empty.
    pub kind: String,
    /// The user's headers.
    pub headers: Headers,
    /// The encoded event; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// When the row was written, by the database's clock.
    pub created_at: SystemTime,
    /// When a [delayed](crate::guide::delayed) message was due, by the database's clock.
    pub deliver_at: Option<SystemTime>,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The lane of an [ordered](crate::Topic::ordered_by_key) topic, if a relay sends the message.
    pub lane: Option<u16>,
    /// By which path a relay sends the message, as the label `path` of the [metrics](crate::metrics) names it: `inline`,
    /// `confirmed`, `swept` or `lane`.
    pub path: Option<&'static str>,
}

impl Envelope {
    /// The first attempt of a message without key, kind, headers or payload; set the fields it has.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use diesel_outbox::{Envelope, MessageId};
    /// let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    /// envelope.key = Some("42".to_owned());
    /// assert_eq!(envelope.attempt, 1);
    /// ```
    pub fn new(message_id: MessageId, topic: Arc<str>, created_at: SystemTime) -> Self {
        Self {
            message_id,
            topic,
            key: None,
            kind: String::new(),
            headers: Headers::new(),
            payload: None,
            created_at,
            deliver_at: None,
            attempt: 1,
            lane: None,
            path: None,
        }
    }

    /// From when on it could have been sent: since its enqueue, or since its delivery time.
    pub(crate) fn due_from(&self) -> SystemTime {
        self.deliver_at.map_or(self.created_at, |at| at.max(self.created_at))
    }

    /// The size of payload, key and headers in bytes, as the size limits count it.
    pub fn size_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.payload.as_ref().map_or(0, Vec::len) + self.key.as_ref().map_or(0, String::len) + headers
    }
}

// The payload is the application's data and must not be logged.
impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &self.headers)
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
