//! OpenTelemetry traces for [diesel-outbox](diesel_outbox): one trace leads from the request that enqueued a message to the
//! consumers that processed it.
//!
//! ```
//! use diesel_outbox::transport::MemoryTransport;
//! use diesel_outbox::{Outbox, Topic};
//! use diesel_outbox_otel::{OtelInterceptor, traced};
//!
//! let outbox = Outbox::builder().topic(Topic::new("orders")).interceptor(OtelInterceptor::new()).build()?;
//! let transport = traced(MemoryTransport::new()); // or traced(KafkaTransport::new(..)?)
//! # let _ = outbox.relay().transport(transport);
//! # Ok::<_, diesel_outbox::BuildError>(())
//! ```
//!
//! | part | span | kind |
//! |---|---|---|
//! | [`OtelInterceptor`] | `create orders`: a child of the current context, for each enqueued message | PRODUCER |
//! | [`traced`] | `send orders`: for each call of the transport, with a link to the context of each message | CLIENT |
//! | [`consumer::ProcessSpan`] | `process orders`: in the consumer, linked to the creation context or its child | CONSUMER |
//! | [`consumer::continue_trace`](consumer) | the same, for the spans of `KafkaConsumer` and `RocketMqConsumer` | CONSUMER |
//!
//! The context of the `create` span is in the headers `traceparent` and `tracestate` ([W3C]) of the message's row. So every copy
//! carries it: a retry, a resend after a crash, a redrive. Headers of these names that the application has set stay as they
//! are. Then there is no `create` span, and sends link to the application's context.
//!
//! Spans follow version 1.42.0 of OpenTelemetry's [messaging conventions] ([`SCHEMA_URL`]), whose status is still
//! "Development". They never hold a payload, a key or the value of another header.
//!
//! Without a provider, or with no span sampled, nothing is recorded. A panic in the SDK costs a span and no message.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `rdkafka` | [`consumer::kafka_context`](consumer), for records of rdkafka |
//! | `http` | `consumer::http_context`, for requests |
//! | `tracing` | `consumer::continue_trace`; the current span of `tracing`, if its OpenTelemetry layer does not activate contexts (it does by default) |
//!
//! [W3C]: https://www.w3.org/TR/trace-context/
//! [messaging conventions]: https://github.com/open-telemetry/semantic-conventions/blob/v1.42.0/docs/messaging/messaging-spans.md
#![forbid(unsafe_code)]

pub mod consumer;
mod conventions;
mod current;
mod headers;
mod interceptor;
mod send_span;
mod traced;
mod tracer;

pub use conventions::SCHEMA_URL;
pub use interceptor::OtelInterceptor;
pub use traced::{Traced, traced};
