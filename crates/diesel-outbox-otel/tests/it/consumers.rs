//! The `process` span.

use diesel_outbox_otel::consumer::{ProcessSpan, headers_context};
use opentelemetry::Context;
use opentelemetry::trace::{TraceContextExt as _, Tracer as _, TracerProvider as _};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::collector::{Collector, Span};

/// Processes a message as a child of its creation, and asserts that this continues the producer's trace. Returns the span.
pub(crate) fn assert_processed(
    collector: &Collector,
    processing: ProcessSpan,
    creation: &Context,
    created: &Span,
) -> Span {
    let processing = processing.child_of(creation).start();
    let active = processing.clone().attach();
    collector.provider().tracer("billing").in_span("write invoice", |_| {});
    drop(active);
    processing.span().end();
    let destination = created.attribute("messaging.destination.name").expect("a destination");
    let processed = collector.wait_for(1, &format!("process {destination}")).remove(0);
    assert_eq!(processed.kind, SpanKind::Consumer);
    assert_eq!((&processed.ids.0, &processed.parent), (&created.ids.0, &created.ids.1), "it continues the trace");
    assert_eq!(processed.linked(), std::slice::from_ref(&created.ids));
    let inner = collector.wait_for(1, "write invoice").remove(0);
    assert_eq!((&inner.ids.0, &inner.parent), (&processed.ids.0, &processed.ids.1));
    for (name, value) in [
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", destination),
    ] {
        assert_eq!(processed.attribute(name), Some(value), "{name}");
    }
    processed
}

const CREATION: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn creation() -> Context {
    headers_context([("traceparent", CREATION)])
}

#[test]
fn by_default_the_span_is_linked_and_a_child_of_the_current_one() {
    let collector = Collector::start();
    let tracer = collector.provider().tracer("billing");
    tracer.in_span("poll", |_| {
        let batch = ProcessSpan::new("kafka", "orders").message_count(2).with_provider(collector.provider());
        drop(batch.linked_to(&creation()).linked_to(&creation()).start());
    });
    let poll = collector.wait_for(1, "poll").remove(0);
    let processed = collector.wait_for(1, "process orders").remove(0);
    assert_eq!((&processed.ids.0, &processed.parent), (&poll.ids.0, &poll.ids.1));
    assert_eq!(processed.linked().len(), 2);
    assert_eq!(processed.attribute("messaging.batch.message_count"), Some("2"));
}

#[test]
fn a_child_of_the_creation_is_linked_to_the_current_span() {
    let collector = Collector::start();
    let tracer = collector.provider().tracer("billing");
    tracer.in_span("POST /orders", |_| {
        let processing = ProcessSpan::new("http", "orders").message_id("1").with_provider(collector.provider());
        drop(processing.child_of(&creation()).start());
    });
    let ambient = collector.wait_for(1, "POST /orders").remove(0);
    let processed = collector.wait_for(1, "process orders").remove(0);
    let created = ("0af7651916cd43dd8448eb211c80319c".to_owned(), "b7ad6b7169203331".to_owned());
    assert_eq!((&processed.ids.0, &processed.parent), (&created.0, &created.1));
    assert_eq!(processed.linked(), [created, ambient.ids]);
    assert_eq!(processed.attribute("messaging.message.id"), Some("1"));
}

#[test]
fn a_message_without_context_is_processed_in_the_current_one() {
    let collector = Collector::start();
    let none = headers_context([("source", "shop")]);
    let tracer = collector.provider().tracer("billing");
    tracer.in_span("poll", |_| {
        for span in
            [ProcessSpan::new("kafka", "orders").linked_to(&none), ProcessSpan::new("kafka", "orders").child_of(&none)]
        {
            drop(span.with_provider(collector.provider()).start());
        }
    });
    let poll = collector.wait_for(1, "poll").remove(0);
    let processed = collector.wait_for(2, "process orders");
    assert!(processed.iter().all(|span| span.parent == poll.ids.1), "{processed:#?}");
    assert_eq!(processed[0].linked(), []);
}
