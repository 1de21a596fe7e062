use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use super::{Delivery, Headers, OutboxMessage};
use crate::codec::CodecError;

/// A message built by hand: any topic, any bytes, or a tombstone.
///
/// ```
/// use diesel_outbox::{Message, OutboxMessage};
///
/// let tombstone = Message::to("customers").key("42").header("reason", "erased");
/// assert_eq!(tombstone.payload().unwrap(), None);
///
/// let raw = Message::to("images").kind("image.stored").payload_bytes(vec![0xff, 0xd8]);
/// assert_eq!(raw.topic(), "images");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    topic: String,
    kind: String,
    key: Option<String>,
    headers: Headers,
    payload: Option<Vec<u8>>,
    delivery: Delivery,
}

impl Message {
    /// A message for `topic`, without kind, key, headers or payload. Without a payload it is a tombstone.
    pub fn to(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            kind: String::new(),
            key: None,
            headers: Headers::new(),
            payload: None,
            delivery: Delivery::Now,
        }
    }

    /// Changes the topic.
    #[must_use]
    pub fn redirect(mut self, topic: impl Into<String>) -> Self {
        self.topic = topic.into();
        self
    }

    /// Sets the kind: what happened.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the key: what the message is about.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Appends a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push(name, value);
        self
    }

    /// Replaces the headers.
    #[must_use]
    pub fn replace_headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the payload; without one the message is a tombstone.
    #[must_use]
    pub fn payload_bytes(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sends it this long after it was enqueued.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delivery = Delivery::After(delay);
        self
    }

    /// Sends it at this time by the database's clock; at once if the time is past.
    #[must_use]
    pub fn deliver_at(mut self, at: SystemTime) -> Self {
        self.delivery = Delivery::At(at);
        self
    }
}

impl OutboxMessage for Message {
    const TOPIC: Option<&'static str> = None;
    const KIND: &'static str = "";

    fn topic(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.topic)
    }

    fn kind(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.kind)
    }

    fn key(&self) -> Option<Cow<'_, str>> {
        self.key.as_deref().map(Cow::Borrowed)
    }

    fn headers(&self) -> Headers {
        self.headers.clone()
    }

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(self.payload.clone())
    }

    fn delivery(&self) -> Delivery {
        self.delivery
    }
}

// As for an envelope: the payload is the application's data and must not be logged.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &self.headers)
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .field("delivery", &self.delivery)
            .finish()
    }
}
