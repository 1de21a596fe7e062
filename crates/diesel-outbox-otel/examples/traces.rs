//! A message's way as spans: a request enqueues it, the relay sends it, a consumer processes it. Needs no server.
//!
//! ```sh
//! cargo run --example traces --package diesel-outbox-otel
//! ```
//!
//! It checks what it prints. A service would export to a collector instead: with `opentelemetry-otlp` in the place of
//! `InMemorySpanExporter`, and `global::set_tracer_provider`, so that nobody has to pass the provider on.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

use std::error::Error;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Message, Outbox, Topic};
use diesel_outbox_otel::consumer::{ProcessSpan, headers_context};
use diesel_outbox_otel::{OtelInterceptor, traced};
use opentelemetry::global;
use opentelemetry::trace::{SpanKind, TraceContextExt as _, Tracer as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    global::set_tracer_provider(provider.clone());

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db").display().to_string();
    let mut conn = SqliteConnection::establish(&file)?;
    conn.batch_execute(SQLITE_PRAGMAS)?;
    let outbox = Outbox::builder().topic(Topic::new("orders")).interceptor(OtelInterceptor::new()).build()?;
    outbox.migrate(&mut conn)?;
    let pool = Pool::builder().max_size(2).build(ConnectionManager::<SqliteConnection>::new(file))?;
    let broker = MemoryTransport::new();
    let relay = outbox.relay().store(SqliteStore::new(pool)).transport(traced(broker.clone())).start_blocking()?;

    // The producer: a request, as an instrumented web framework would show it.
    let order = Message::to("orders").kind("order.placed").key("42").payload_bytes("{}");
    global::tracer("shop")
        .in_span("POST /orders", |_| conn.immediate_transaction(|conn| outbox.enqueue(conn, &order)))?;
    let message = broker.wait_for_delivered_blocking(1, Duration::from_secs(10))?.remove(0);
    relay.shutdown(Duration::from_secs(10))?;

    // The consumer.
    let creation = headers_context(message.headers.iter());
    let processing =
        ProcessSpan::new("memory", &*message.topic).message_id(message.message_id).child_of(&creation).start();
    processing.span().end();

    provider.force_flush()?;
    let spans = exporter.get_finished_spans()?;
    for span in &spans {
        println!("{:<16} {:<9} trace {}", span.name, format!("{:?}", span.span_kind), span.span_context.trace_id());
        for link in &*span.links {
            println!(
                "{:<16} linked to span {} of trace {}",
                "",
                link.span_context.span_id(),
                link.span_context.trace_id()
            );
        }
    }
    let named = |name: &str| spans.iter().find(|span| span.name == name).ok_or_else(|| format!("no span {name}"));
    let (request, created) = (named("POST /orders")?, named("create orders")?);
    let (sent, processed) = (named("send orders")?, named("process orders")?);
    assert_eq!((created.parent_span_id, &created.span_kind), (request.span_context.span_id(), &SpanKind::Producer));
    assert_eq!(sent.links[0].span_context.span_id(), created.span_context.span_id());
    assert_eq!(processed.parent_span_id, created.span_context.span_id());
    assert_eq!(processed.span_context.trace_id(), request.span_context.trace_id());
    println!("One trace leads from the request to the consumer, and each send is linked to it.");
    Ok(())
}
