//! An application that traces its messages.

use anyhow::{Context, Result};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Outbox, Topic};
use diesel_outbox_otel::{OtelInterceptor, Traced, traced};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};

/// Drops every span: what a real exporter costs depends on where it sends them.
#[derive(Debug)]
struct Discard;

impl SpanExporter for Discard {
    async fn export(&self, _spans: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

/// An outbox and a broker that make a span for each enqueue and each send; with `records`, these are recorded.
pub(crate) fn traced_application(topic: &str, records: bool) -> Result<(Outbox, Traced<MemoryTransport>)> {
    let (mut interceptor, mut transport) = (OtelInterceptor::new(), traced(MemoryTransport::new()));
    if records {
        let provider = SdkTracerProvider::builder().with_batch_exporter(Discard).build();
        (interceptor, transport) = (interceptor.with_provider(&provider), transport.with_provider(&provider));
    }
    let outbox = Outbox::builder().topic(Topic::new(topic)).interceptor(interceptor).build();
    Ok((outbox.context("build the outbox")?, transport))
}
