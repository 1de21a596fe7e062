//! The `create` span.

use std::borrow::Cow;
use std::error::Error;

use diesel_outbox::{EnqueueInterceptor, InterceptedMessage};
use opentelemetry::KeyValue;
use opentelemetry::global::ObjectSafeTracer;
use opentelemetry::trace::{SpanBuilder, SpanKind, TraceContextExt as _, TracerProvider};

use crate::conventions::{DESTINATION, KIND, MESSAGE_ID, Operation, SYSTEM};
use crate::current;
use crate::headers;
use crate::tracer::TracerSource;

/// Makes a `create` span for each enqueued message, as a child of the current context. The message carries the span's context
/// in its headers `traceparent` and `tracestate`.
///
/// A message that has one of these headers already keeps it, and gets no span. A message also gets no headers without a
/// provider and a current context.
///
/// The span tells that the message was enqueued. If the transaction rolls back, no send follows.
///
/// ```
/// use diesel_outbox::{Outbox, Topic};
/// use diesel_outbox_otel::OtelInterceptor;
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).interceptor(OtelInterceptor::new()).build()?;
/// # let _ = outbox;
/// # Ok::<_, diesel_outbox::BuildError>(())
/// ```
#[derive(Debug, Clone)]
pub struct OtelInterceptor {
    tracer: TracerSource,
    system: Cow<'static, str>,
}

impl OtelInterceptor {
    /// With the global tracer provider, which may be set later.
    pub fn new() -> Self {
        Self { tracer: TracerSource::default(), system: Cow::Borrowed("diesel_outbox") }
    }

    /// With another provider.
    #[must_use]
    pub fn with_provider<P>(mut self, provider: &P) -> Self
    where
        P: TracerProvider,
        P::Tracer: ObjectSafeTracer + Send + Sync + 'static,
    {
        self.tracer = TracerSource::of(provider);
        self
    }

    /// Sets the spans' `messaging.system`, for instance `kafka` if all topics go there. By default it is `diesel_outbox`: an
    /// enqueue writes to a table, and knows no broker.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<Cow<'static, str>>) -> Self {
        self.system = system.into();
        self
    }

    /// The headers of the message's new span.
    fn create(&self, message: &InterceptedMessage<'_>) -> Vec<(String, String)> {
        let [name, kind] = Operation::Create.attributes();
        let destination = KeyValue::new(DESTINATION, message.topic().to_owned());
        let builder = SpanBuilder::from_name(Operation::Create.span_name(Some(message.topic())))
            .with_kind(SpanKind::Producer)
            .with_attributes([name, kind, KeyValue::new(SYSTEM, self.system.clone()), destination]);
        let created = self.tracer.start(builder, &current::context());
        // Samplers need none of these, and most spans of a sampled service are not recorded.
        let span = created.span();
        if span.is_recording() {
            span.set_attribute(KeyValue::new(MESSAGE_ID, message.message_id().to_string()));
            if !message.kind().is_empty() {
                span.set_attribute(KeyValue::new(KIND, message.kind().to_owned()));
            }
        }
        span.end();
        headers::of(&created)
    }
}

impl Default for OtelInterceptor {
    fn default() -> Self {
        Self::new()
    }
}

impl EnqueueInterceptor for OtelInterceptor {
    fn on_enqueue(&self, message: &mut InterceptedMessage<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        if !message.headers().iter().any(|(name, _)| headers::is_trace_header(name)) {
            for (name, value) in current::guarded(|| self.create(message)).into_iter().flatten() {
                message.add_header(name, value);
            }
        }
        Ok(())
    }
}
