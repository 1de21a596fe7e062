//! In the consumer: the creation context of a message, and the `process` span.
//!
//! ```
//! use diesel_outbox_otel::consumer::{ProcessSpan, headers_context};
//! use opentelemetry::trace::TraceContextExt as _;
//!
//! # let headers = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
//! let creation = headers_context(headers); // or kafka_context(&message), rocketmq_context(..), http_context(..)
//! let processing = ProcessSpan::new("kafka", "orders").linked_to(&creation).start();
//! let active = processing.clone().attach(); // in async code: `handle(message).with_context(processing)`
//! // .. handle the message
//! drop(active);
//! processing.span().end();
//! ```

use std::borrow::Cow;

use opentelemetry::global::ObjectSafeTracer;
use opentelemetry::trace::{Link, SpanBuilder, SpanKind, TraceContextExt as _, TracerProvider};
use opentelemetry::{Context, KeyValue};

use crate::conventions::{CONSUMER_GROUP, DESTINATION, MESSAGE_COUNT, MESSAGE_ID, Operation, SYSTEM};
use crate::tracer::TracerSource;
use crate::{current, headers};

/// The creation context in a message's headers; a context without a span if there is none. Of two headers with the same name,
/// the first counts.
pub fn headers_context<N: AsRef<str>, V: AsRef<[u8]>>(headers: impl IntoIterator<Item = (N, V)>) -> Context {
    headers::context(headers)
}

/// The creation context in the properties of a RocketMQ message: names and values as text.
///
/// ```
/// use std::collections::HashMap;
/// let properties = HashMap::from([("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]);
/// let creation = diesel_outbox_otel::consumer::rocketmq_context(&properties);
/// ```
pub fn rocketmq_context<N: AsRef<str>, V: AsRef<str>>(properties: impl IntoIterator<Item = (N, V)>) -> Context {
    headers::context(properties.into_iter().map(|(name, value)| (name, Text(value))))
}

/// A text as its bytes.
struct Text<V>(V);

impl<V: AsRef<str>> AsRef<[u8]> for Text<V> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().as_bytes()
    }
}

/// The creation context in the headers of an HTTP request.
#[cfg(feature = "http")]
pub fn http_context(headers: &http::HeaderMap) -> Context {
    headers::context(headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// The creation context in the headers of a Kafka record.
#[cfg(feature = "rdkafka")]
pub fn kafka_context(message: &impl rdkafka::Message) -> Context {
    use rdkafka::message::Headers as _;
    let headers = message.headers();
    let headers = headers.into_iter().flat_map(|headers| headers.iter());
    headers::context(headers.map(|header| (header.key, header.value.unwrap_or_default())))
}

/// Builds the span of processing one message or several.
///
/// By the conventions it is linked to the creation contexts. A consumer of single messages may make it a child instead, and
/// so show producer and consumer as one tree.
#[derive(Debug)]
#[must_use = "the span begins with `start`"]
pub struct ProcessSpan {
    tracer: TracerSource,
    destination: String,
    attributes: Vec<KeyValue>,
    links: Vec<Link>,
    parent: Option<Context>,
}

impl ProcessSpan {
    /// Of a message from a topic of a messaging system: `kafka`, `rocketmq`, or `http`.
    pub fn new(system: impl Into<Cow<'static, str>>, topic: impl Into<String>) -> Self {
        let destination = topic.into();
        let mut attributes = Operation::Process.attributes().to_vec();
        attributes.push(KeyValue::new(SYSTEM, system.into()));
        attributes.push(KeyValue::new(DESTINATION, destination.clone()));
        Self { tracer: TracerSource::default(), destination, attributes, links: Vec::new(), parent: None }
    }

    /// Of a Kafka record, with its partition, offset and message id. Choose [`linked_to`](Self::linked_to) or
    /// [`child_of`](Self::child_of), too.
    #[cfg(feature = "rdkafka")]
    pub fn of_kafka(message: &impl rdkafka::Message) -> Self {
        use diesel_outbox::transport::header;
        use rdkafka::message::Headers as _;

        use crate::conventions::{KAFKA_OFFSET, PARTITION};
        let headers = message.headers();
        let id = headers.into_iter().flat_map(|headers| headers.iter()).find(|of| of.key == header::MESSAGE_ID);
        let id = id.and_then(|id| std::str::from_utf8(id.value?).ok());
        let span = Self::new("kafka", message.topic())
            .attribute(KeyValue::new(PARTITION, message.partition().to_string()))
            .attribute(KeyValue::new(KAFKA_OFFSET, message.offset()));
        match id {
            Some(id) => span.message_id(id),
            None => span,
        }
    }

    /// Makes the span with another provider than the global one.
    pub fn with_provider<P>(mut self, provider: &P) -> Self
    where
        P: TracerProvider,
        P::Tracer: ObjectSafeTracer + Send + Sync + 'static,
    {
        self.tracer = TracerSource::of(provider);
        self
    }

    /// Sets the message's id, if it is about one message.
    pub fn message_id(self, message_id: impl ToString) -> Self {
        self.attribute(KeyValue::new(MESSAGE_ID, message_id.to_string()))
    }

    /// Sets the number of messages, if they are processed as a batch.
    pub fn message_count(self, count: usize) -> Self {
        self.attribute(KeyValue::new(MESSAGE_COUNT, i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// Sets the consumer group.
    pub fn consumer_group(self, group: impl Into<String>) -> Self {
        self.attribute(KeyValue::new(CONSUMER_GROUP, group.into()))
    }

    /// Adds an attribute.
    pub fn attribute(mut self, attribute: KeyValue) -> Self {
        self.attributes.push(attribute);
        self
    }

    /// Links the span to a message's creation context; for a batch, call it for each message. The span is a child of the
    /// current context.
    pub fn linked_to(mut self, creation: &Context) -> Self {
        self.links.push(link(creation));
        self
    }

    /// Makes the span a child of the message's creation context, and so part of the producer's trace. It is also linked to
    /// the creation context, and to the current one if there is any.
    pub fn child_of(mut self, creation: &Context) -> Self {
        self.links.extend([link(creation), link(&current::context())]);
        self.parent = Some(creation.clone());
        self
    }

    /// Starts the span, and returns the context with it. Attach it, so that spans made meanwhile are children. The span ends
    /// by `context.span().end()`, or when the last clone of the context is dropped.
    pub fn start(self) -> Context {
        let Self { tracer, destination, attributes, links, parent } = self;
        let builder = SpanBuilder::from_name(Operation::Process.span_name(Some(&destination)))
            .with_kind(SpanKind::Consumer)
            .with_attributes(attributes)
            // Without the contexts that are none.
            .with_links(links);
        // Without a creation context, the span belongs where it is made.
        let parent = parent.filter(|creation| creation.has_active_span()).unwrap_or_else(current::context);
        tracer.start(builder, &parent)
    }
}

/// Makes a span of `tracing` a child of the creation context in a message's headers, and so part of the producer's trace. It is also
/// linked to that context, as the conventions want. Without such a context, or without a layer of `tracing-opentelemetry`, the span stays
/// as it is. Call it before the span is entered; then its parent is decided.
///
/// It is for the spans that the consumers of diesel-outbox make around their handlers:
///
/// ```
/// use diesel_outbox::consumer::KafkaConsumer;
/// use diesel_outbox_otel::consumer::continue_trace;
///
/// fn traced(consumer: KafkaConsumer) -> KafkaConsumer {
///     consumer.on_span(|span, record| continue_trace(span, record.headers().iter()))
/// }
/// ```
#[cfg(feature = "tracing")]
pub fn continue_trace<N: AsRef<str>, V: AsRef<[u8]>>(span: &tracing::Span, headers: impl IntoIterator<Item = (N, V)>) {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    let creation = headers_context(headers);
    if creation.has_active_span() {
        span.add_link(creation.span().span_context().clone());
        // It fails where there is nothing to be set: without the layer, or for a span that has begun.
        let _ = span.set_parent(creation);
    }
}

fn link(to: &Context) -> Link {
    Link::new(to.span().span_context().clone(), Vec::new(), 0)
}
