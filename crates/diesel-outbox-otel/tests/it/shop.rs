//! An outbox on SQLite whose messages and sends are traced.

use std::fmt;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::relay::BlockingRelay;
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{MemoryTransport, Transport};
use diesel_outbox::{Envelope, Message, Outbox, Topic};
use diesel_outbox_otel::{OtelInterceptor, Traced, traced};
use opentelemetry::trace::{Tracer as _, TracerProvider as _};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tempfile::TempDir;

use crate::collector::{Collector, DEADLINE, Ids, Span};

pub(crate) const TOPICS: [&str; 4] = ["fenced", "orders", "payments", "single"];

pub(crate) struct Shop {
    folder: TempDir,
    pub(crate) outbox: Outbox,
    pub(crate) broker: MemoryTransport,
    pub(crate) collector: Collector,
}

impl Shop {
    pub(crate) fn open() -> Self {
        Self::sampling(Sampler::AlwaysOn)
    }

    pub(crate) fn sampling(sampler: Sampler) -> Self {
        let collector = Collector::sampling(sampler);
        let outbox = outbox(OtelInterceptor::new().with_provider(collector.provider()));
        let shop =
            Self { folder: tempfile::tempdir().expect("a folder"), outbox, broker: MemoryTransport::new(), collector };
        shop.outbox.migrate(&mut shop.connect()).expect("migrate");
        shop
    }

    pub(crate) fn file(&self) -> String {
        self.folder.path().join("shop.db").to_str().expect("a plain path").to_owned()
    }

    pub(crate) fn connect(&self) -> SqliteConnection {
        connect(&self.file())
    }

    pub(crate) fn store(&self) -> SqliteStore<Pool<ConnectionManager<SqliteConnection>>> {
        store(&self.file())
    }

    /// The traced broker.
    pub(crate) fn transport(&self) -> Traced<MemoryTransport> {
        traced(self.broker.clone()).with_provider(self.collector.provider())
    }

    pub(crate) fn start(&self) -> BlockingRelay {
        self.start_with(self.transport())
    }

    pub(crate) fn start_with(&self, transport: impl Transport) -> BlockingRelay {
        self.outbox.relay().store(self.store()).transport(transport).start_blocking().expect("start")
    }

    /// Enqueues in a request that is traced, too. Returns the request's span.
    pub(crate) fn in_request<T: fmt::Debug>(
        &self,
        enqueue: impl FnOnce(&mut SqliteConnection) -> QueryResult<T>,
    ) -> Span {
        let mut conn = self.connect();
        let tracer = self.collector.provider().tracer("shop");
        let before = self.collector.named("request").len();
        tracer.in_span("request", |_| conn.immediate_transaction(enqueue)).expect("commit");
        self.collector.wait_for(before + 1, "request").remove(before)
    }

    /// One order, enqueued in a traced request. Returns the request's span and that of the creation.
    pub(crate) fn place(&self, message: &Message) -> (Span, Span) {
        let before = self.spans_of("create").len();
        let request = self.in_request(|conn| self.outbox.enqueue(conn, message));
        let mut created = self.spans_of("create");
        assert_eq!(created.len(), before + 1, "{created:#?}");
        (request, created.remove(before))
    }

    /// The spans of an operation, whatever their destination.
    fn spans_of(&self, operation: &str) -> Vec<Span> {
        let mut spans = self.collector.spans();
        spans.retain(|span| span.attribute("messaging.operation.name") == Some(operation));
        spans
    }

    pub(crate) fn delivered(&self, count: usize) -> Vec<Envelope> {
        self.broker.wait_for_delivered_blocking(count, DEADLINE).expect("delivered")
    }
}

pub(crate) fn outbox(interceptor: OtelInterceptor) -> Outbox {
    let at_once = |topic| Topic::new(topic).retry(Fixed::seconds(&[0]));
    let [fenced, orders, payments, single] = TOPICS;
    Outbox::builder()
        .topic(at_once(fenced).ordered_by_key().fenced())
        .topic(at_once(orders))
        .topic(at_once(payments).ordered_by_key())
        .topic(at_once(single).attempts_max(1))
        .interceptor(interceptor)
        .build()
        .expect("build")
}

pub(crate) fn connect(file: &str) -> SqliteConnection {
    let mut conn = SqliteConnection::establish(file).expect("open");
    conn.batch_execute(SQLITE_PRAGMAS).expect("set up");
    conn
}

pub(crate) fn store(file: &str) -> SqliteStore<Pool<ConnectionManager<SqliteConnection>>> {
    SqliteStore::new(Pool::builder().max_size(4).build(ConnectionManager::new(file)).expect("a pool"))
}

pub(crate) fn order(number: i64) -> Message {
    Message::to("orders").kind("order.placed").key(number.to_string()).payload_bytes("{}")
}

/// The headers of this name.
pub(crate) fn headers(message: &Envelope, name: &str) -> Vec<String> {
    let named = message.headers.iter().filter(|(known, _)| *known == name);
    named.map(|(_, value)| String::from_utf8(value.to_vec()).expect("a text")).collect()
}

/// Asserts that a span is the creation of this message, in this request.
#[track_caller]
pub(crate) fn assert_created(created: &Span, request: &Span, message: &Envelope) {
    assert_eq!(created.name, format!("create {}", message.topic));
    assert_eq!(created.kind, SpanKind::Producer);
    assert_eq!((&created.ids.0, &created.parent), (&request.ids.0, &request.ids.1), "a child of the request");
    let id = message.message_id.to_string();
    for (name, value) in [
        ("messaging.operation.name", "create"),
        ("messaging.operation.type", "create"),
        ("messaging.system", "diesel_outbox"),
        ("messaging.destination.name", &*message.topic),
        ("messaging.message.id", id.as_str()),
        ("outbox.kind", message.kind.as_str()),
    ] {
        assert_eq!(created.attribute(name), Some(value), "{name}");
    }
    assert_eq!(created.schema_url, "https://opentelemetry.io/schemas/1.42.0");
    assert_eq!((&created.error, created.links.len()), (&None, 0));
    assert_eq!(headers(message, "traceparent"), [created.trace_parent()]);
}

/// Asserts that a span is the send of one message, linked to its creation.
#[track_caller]
pub(crate) fn assert_sent(sent: &Span, creation: &Ids, message: &Envelope) {
    assert_eq!(sent.name, format!("send {}", message.topic));
    assert_eq!(sent.kind, SpanKind::Client);
    assert_eq!(sent.links, [(creation.clone(), Default::default())]);
    assert_ne!(sent.ids.0, creation.0, "a trace of its own");
    assert_eq!(sent.parent, "");
    let (id, attempt) = (message.message_id.to_string(), message.attempt.to_string());
    let lane = message.lane.map(|lane| lane.to_string());
    for (name, value) in [
        ("messaging.operation.name", Some("send")),
        ("messaging.operation.type", Some("send")),
        ("messaging.destination.name", Some(&*message.topic)),
        ("messaging.message.id", Some(id.as_str())),
        ("messaging.batch.message_count", None),
        ("outbox.path", message.path),
        ("outbox.attempt", Some(attempt.as_str())),
        ("outbox.lane", lane.as_deref()),
    ] {
        assert_eq!(sent.attribute(name), value, "{name}");
    }
    assert_eq!(sent.schema_url, "https://opentelemetry.io/schemas/1.42.0");
}

/// The provider of another process's spans.
pub(crate) fn exporting_to(endpoint: &str) -> SdkTracerProvider {
    crate::collector::provider(endpoint, Sampler::AlwaysOn)
}
