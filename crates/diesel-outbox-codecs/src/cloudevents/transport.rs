//! A transport that turns each message into an event.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::transport::{
    FailureClass, FencedLane, FencedMessage, LaneName, OutcomeSender, RowLookup, Transport, TransportError,
};
use diesel_outbox::{Envelope, Topic, async_trait};

use super::attributes::EventRules;
use super::binary::{self, Binding};
use super::structured;

/// Wraps a transport, so that it sends CloudEvents in the binary content mode. `source` names the application, as in `/shop` or
/// `https://shop.example`: a URI reference.
pub fn cloud_events<T: Transport>(transport: T, source: impl Into<String>) -> CloudEvents<T> {
    let binding = Binding::of(transport.system());
    let content_type = "application/json".to_owned();
    let rules = EventRules { source: source.into(), content_type, has_subject: false };
    CloudEvents { inner: transport, events: Events { rules: Arc::new(rules), binding, is_structured: false } }
}

/// A transport that sends CloudEvents. From [`cloud_events`].
#[derive(Debug, Clone)]
#[must_use = "it sends only what it is given by a relay"]
pub struct CloudEvents<T> {
    inner: T,
    events: Events,
}

#[derive(Debug, Clone)]
struct Events {
    rules: Arc<EventRules>,
    binding: Binding,
    is_structured: bool,
}

impl<T> CloudEvents<T> {
    /// Sends events in the structured content mode: the payload is one JSON document with attributes and data, and the content type is
    /// `application/cloudevents+json`. Data that is not JSON becomes base64, which is a third longer. A tombstone stays one, in the
    /// binary mode, because Kafka compacts by it.
    pub fn structured(mut self) -> Self {
        self.events.is_structured = true;
        self
    }

    /// Sends the key as the attribute `subject`, too.
    pub fn subject_from_key(mut self) -> Self {
        Arc::make_mut(&mut self.events.rules).has_subject = true;
        self
    }

    /// The media type of payloads whose messages have no header `content-type`; `application/json` by default.
    pub fn data_content_type(mut self, content_type: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.events.rules).content_type = content_type.into();
        self
    }

    /// The wrapped transport.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

impl Events {
    /// Turns a message into an event.
    fn encode(&self, mut envelope: Envelope) -> Envelope {
        if self.is_structured && envelope.payload.is_some() {
            structured::encode(&mut envelope, &self.rules);
        } else {
            binary::encode(&mut envelope, &self.rules, self.binding);
        }
        envelope
    }

    /// Refuses a configuration with which no event would be valid.
    fn check(&self) -> Result<(), TransportError> {
        let source = &self.rules.source;
        if source.is_empty() || source.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(TransportError::new(FailureClass::Topic, InvalidSource(source.clone())));
        }
        Ok(())
    }
}

/// A source that is no URI reference.
#[derive(Debug)]
struct InvalidSource(String);

impl std::error::Error for InvalidSource {}

impl fmt::Display for InvalidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the source {:?} of CloudEvents is no URI reference: name the application, as in \"/shop\"", self.0)
    }
}

#[async_trait]
impl<T: Transport> Transport for CloudEvents<T> {
    fn delivery_timeout(&self) -> Duration {
        self.inner.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.events.check()?;
        self.inner.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.inner.send(self.events.encode(envelope), sender);
    }

    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        let encode = |(envelope, sender)| (self.events.encode(envelope), sender);
        self.inner.send_all(messages.into_iter().map(encode).collect());
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.inner.probe().await
    }

    fn outage(&self) -> Option<FailureClass> {
        self.inner.outage()
    }

    fn in_flight_max(&self) -> usize {
        self.inner.in_flight_max()
    }

    fn sends_individually(&self) -> bool {
        self.inner.sends_individually()
    }

    fn system(&self) -> &'static str {
        self.inner.system()
    }

    fn supports_fencing(&self) -> bool {
        self.inner.supports_fencing()
    }

    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        let inner = self.inner.fence(lane).await?;
        Ok(Arc::new(EventLane { inner, events: self.events.clone() }))
    }

    fn supports_exactly_once(&self) -> bool {
        self.inner.supports_exactly_once()
    }

    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let inner = self.inner.fence_exactly_once(lane, rows).await?;
        Ok(Arc::new(EventLane { inner, events: self.events.clone() }))
    }

    async fn flush(&self, within: Duration) -> usize {
        self.inner.flush(within).await
    }
}

/// A fenced lane of such a transport.
#[derive(Debug)]
struct EventLane {
    inner: Arc<dyn FencedLane>,
    events: Events,
}

impl FencedLane for EventLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        let encode =
            |message: FencedMessage| FencedMessage { envelope: self.events.encode(message.envelope), ..message };
        self.inner.send_all(messages.into_iter().map(encode).collect());
    }

    fn is_open(&self) -> bool {
        self.inner.is_open()
    }
}
