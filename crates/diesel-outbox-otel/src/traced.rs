//! A transport with spans around each call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::transport::{
    FailureClass, FencedLane, FencedMessage, LaneName, OutcomeSender, RowLookup, Transport, TransportError,
};
use diesel_outbox::{Envelope, Topic};
use opentelemetry::KeyValue;
use opentelemetry::global::ObjectSafeTracer;
use opentelemetry::trace::TracerProvider;

use crate::send_span::SendSpans;
use crate::tracer::TracerSource;

/// Wraps a transport, so that each of its calls makes a `send` span.
///
/// ```
/// use diesel_outbox::transport::MemoryTransport;
/// let transport = diesel_outbox_otel::traced(MemoryTransport::new());
/// ```
pub fn traced<T: Transport>(transport: T) -> Traced<T> {
    let system = transport.system();
    Traced { inner: transport, spans: SendSpans { tracer: TracerSource::default(), system, attributes: Vec::new() } }
}

/// A transport whose calls make `send` spans. From [`traced`].
///
/// A span has one link for each message, to the message's creation context. It ends with the last outcome of the call. If a
/// message fails, the span's status is an error, and `error.type` is the [class](diesel_outbox::transport::FailureClass) of
/// the first failure, or `busy`. In a batch, an event `outbox.message_failed` names each message that failed.
///
/// A relay sends at most 100 messages in a call, which is within the 128 links that SDKs keep by default.
#[derive(Debug, Clone)]
pub struct Traced<T> {
    inner: T,
    spans: SendSpans,
}

impl<T> Traced<T> {
    /// Makes the spans with another provider than the global one, which may be set later.
    #[must_use]
    pub fn with_provider<P>(mut self, provider: &P) -> Self
    where
        P: TracerProvider,
        P::Tracer: ObjectSafeTracer + Send + Sync + 'static,
    {
        self.spans.tracer = TracerSource::of(provider);
        self
    }

    /// Adds an attribute to every span, such as `server.address`.
    #[must_use]
    pub fn with_attribute(mut self, attribute: KeyValue) -> Self {
        self.spans.attributes.push(attribute);
        self
    }

    /// The wrapped transport.
    pub fn inner(&self) -> &T {
        &self.inner
    }
}

#[async_trait]
impl<T: Transport> Transport for Traced<T> {
    fn delivery_timeout(&self) -> Duration {
        self.inner.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.inner.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        let Some(span) = self.spans.begin(std::iter::once(&envelope)) else {
            return self.inner.send(envelope, sender);
        };
        let sender = span.sender(envelope.message_id, sender);
        let _active = span.context().attach();
        self.inner.send(envelope, sender);
    }

    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        let Some(span) = self.spans.begin(messages.iter().map(|(envelope, _)| envelope)) else {
            return self.inner.send_all(messages);
        };
        let with_span = |(envelope, sender): (Envelope, OutcomeSender)| {
            let sender = span.sender(envelope.message_id, sender);
            (envelope, sender)
        };
        let messages = messages.into_iter().map(with_span).collect();
        let _active = span.context().attach();
        self.inner.send_all(messages);
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
        Ok(Arc::new(TracedLane { inner, spans: self.spans.clone() }))
    }

    fn supports_exactly_once(&self) -> bool {
        self.inner.supports_exactly_once()
    }

    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let inner = self.inner.fence_exactly_once(lane, rows).await?;
        Ok(Arc::new(TracedLane { inner, spans: self.spans.clone() }))
    }

    async fn flush(&self, within: Duration) -> usize {
        self.inner.flush(within).await
    }
}

/// A fenced lane of a traced transport.
#[derive(Debug)]
struct TracedLane {
    inner: Arc<dyn FencedLane>,
    spans: SendSpans,
}

impl FencedLane for TracedLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        let Some(span) = self.spans.begin(messages.iter().map(|message| &message.envelope)) else {
            return self.inner.send_all(messages);
        };
        let with_span = |FencedMessage { envelope, sender, sequence, row }| {
            let sender = span.sender(envelope.message_id, sender);
            FencedMessage { envelope, sender, sequence, row }
        };
        let messages = messages.into_iter().map(with_span).collect();
        let _active = span.context().attach();
        self.inner.send_all(messages);
    }

    fn is_open(&self) -> bool {
        self.inner.is_open()
    }
}
