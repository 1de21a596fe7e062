//! A traced transport is the transport that it wraps.

use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::testing::{OutcomeRecorder, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, MemoryTransport, OutcomeSender, Transport, TransportError};
use diesel_outbox::{Envelope, MessageId, Topic};
use diesel_outbox_otel::{OtelInterceptor, traced};
use opentelemetry::Context;
use opentelemetry::trace::{Span as _, TraceContextExt as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};

use crate::shop;

/// A new method of the interface with a default would be lost in silence.
#[test]
fn each_method_of_a_transport_is_passed_on() {
    let text = |path: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let wrapper = text("src/traced.rs");
    for (file, name, interface) in [
        ("../../src/transport/mod.rs", "pub trait Transport:", "Transport for Traced<T> {"),
        ("../../src/transport/fence.rs", "pub trait FencedLane:", "FencedLane for TracedLane {"),
    ] {
        let methods = |text: &str, begin: &str| {
            let (_, body) = text.split_once(begin).expect("it is there");
            let (body, _) = body.split_once("\n}\n").expect("it ends");
            let names = body.lines().filter_map(|line| {
                let line = line.strip_prefix("    ")?;
                let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
                line.split('(').next().map(str::to_owned)
            });
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let wanted = methods(&text(file), name);
        assert!(wanted.len() > 1, "{wanted:?}");
        assert_eq!(methods(&wrapper, interface), wanted);
    }
}

/// Answers with what no default says.
#[derive(Debug)]
struct Odd;

#[async_trait]
impl Transport for Odd {
    fn delivery_timeout(&self) -> Duration {
        Duration::from_secs(7)
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        Err(TransportError::new(FailureClass::Topic, std::io::Error::other(topics.len().to_string())))
    }

    /// Completes the message if the send span is active.
    fn send(&self, _envelope: Envelope, sender: OutcomeSender) {
        if Context::current().has_active_span() {
            sender.complete(diesel_outbox::transport::Outcome::Delivered);
        }
    }

    async fn probe(&self) -> Result<(), TransportError> {
        Err(TransportError::new(FailureClass::Authentication, std::io::Error::other("no")))
    }

    fn outage(&self) -> Option<FailureClass> {
        Some(FailureClass::Fatal)
    }

    fn in_flight_max(&self) -> usize {
        5
    }

    fn sends_individually(&self) -> bool {
        true
    }

    fn system(&self) -> &'static str {
        "odd"
    }

    fn supports_fencing(&self) -> bool {
        true
    }

    fn supports_exactly_once(&self) -> bool {
        true
    }

    async fn flush(&self, within: Duration) -> usize {
        within.as_secs().try_into().expect("small")
    }
}

#[tokio::test]
async fn each_answer_of_a_transport_is_passed_on() {
    let provider = SdkTracerProvider::builder().build();
    let transport = traced(Odd).with_provider(&provider);
    assert_eq!(transport.delivery_timeout(), Duration::from_secs(7));
    assert_eq!(transport.prepare(&[Topic::new("orders")]).await.expect_err("it fails").to_string(), "topic: 1");
    assert_eq!(transport.probe().await.expect_err("it fails").class(), FailureClass::Authentication);
    assert_eq!((transport.outage(), transport.in_flight_max()), (Some(FailureClass::Fatal), 5));
    assert!(transport.sends_individually() && transport.supports_fencing() && transport.supports_exactly_once());
    assert_eq!((transport.system(), transport.inner().system()), ("odd", "odd"));
    assert_eq!(transport.flush(Duration::from_secs(3)).await, 3);
    let outcomes = OutcomeRecorder::new();
    let message = || Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
    transport.send(message(), outcomes.sender(1));
    transport.send_all(vec![(message(), outcomes.sender(2))]);
    let seen = outcomes.seen();
    assert!(seen.len() == 2 && seen.iter().all(|(_, seen)| seen.class().is_none()), "{seen:?}");
}

/// The SDK's part that an application chooses, with a defect.
#[derive(Debug)]
struct Defective;

impl SpanProcessor for Defective {
    fn on_start(&self, span: &mut Span, _context: &Context) {
        assert!(!span.is_recording() || span.span_context().is_remote(), "of this test");
    }

    fn on_end(&self, _span: SpanData) {}

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[test]
fn a_panic_of_the_sdk_costs_no_message_sqlite() {
    let provider = SdkTracerProvider::builder().with_span_processor(Defective).build();
    let plain = shop::Shop::open();
    let outbox = shop::outbox(OtelInterceptor::new().with_provider(&provider));
    let transport = traced(plain.broker.clone()).with_provider(&provider);
    let relay = outbox.relay().store(plain.store()).transport(transport).start_blocking().expect("start");
    let mut conn = plain.connect();
    diesel::Connection::transaction(&mut conn, |conn| outbox.enqueue(conn, &shop::order(1))).expect("commit");
    let message = plain.delivered(1).remove(0);
    assert_eq!((shop::headers(&message, "traceparent"), message.attempt), (Vec::new(), 1));
    drop(relay);
}

/// The memory transport, traced: the suite of transports.
struct Memory(MemoryTransport, SdkTracerProvider);

#[async_trait]
impl TransportUnderTest for Memory {
    fn transport(&self) -> Box<dyn Transport> {
        Box::new(traced(self.0.clone()).with_provider(&self.1))
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        self.0.delivered_to(topic).iter().map(StoredMessage::of).collect()
    }

    async fn go_down(&self) -> bool {
        self.0.go_down();
        true
    }

    async fn go_up(&self) {
        self.0.go_up();
    }
}

mod conformance_memory {
    use super::{Memory, MemoryTransport, SdkTracerProvider};

    async fn open() -> Option<Memory> {
        Some(Memory(MemoryTransport::new(), SdkTracerProvider::builder().build()))
    }

    // What the memory transport leaves out, too.
    diesel_outbox::transport_conformance_tests! { open; without
        only_oversized_messages_are_refused,
        unknown_topic_is_a_topic_failure,
        full_queue_is_busy,
        authentication_failure_hides_secrets,
        frozen_broker_times_out_every_message,
        refused_message_stops_only_its_own_sequence,
    }
}
