//! An OTLP receiver, and the provider that exports to it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{self as proto, span::SpanKind};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use prost::Message as _;
use tokio::runtime::Runtime;

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) type Attributes = BTreeMap<String, String>;

/// A trace and a span of it.
pub(crate) type Ids = (String, String);

/// A span as it was exported.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) ids: Ids,
    /// Empty for the first span of a trace.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) attributes: Attributes,
    pub(crate) links: Vec<(Ids, Attributes)>,
    pub(crate) events: Vec<(String, Attributes)>,
    /// The status's text, if that is an error.
    pub(crate) error: Option<String>,
    pub(crate) schema_url: String,
}

impl Span {
    fn of(span: proto::Span, schema_url: &str) -> Self {
        const ERROR: i32 = proto::status::StatusCode::Error as i32;
        Self {
            ids: (hex(&span.trace_id), hex(&span.span_id)),
            parent: hex(&span.parent_span_id),
            kind: span.kind(),
            attributes: attributes(span.attributes),
            links: span
                .links
                .into_iter()
                .map(|link| ((hex(&link.trace_id), hex(&link.span_id)), attributes(link.attributes)))
                .collect(),
            events: span.events.into_iter().map(|event| (event.name, attributes(event.attributes))).collect(),
            error: span.status.filter(|status| status.code == ERROR).map(|status| status.message),
            name: span.name,
            schema_url: schema_url.to_owned(),
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// The header that carries this span's context.
    pub(crate) fn trace_parent(&self) -> String {
        format!("00-{}-{}-01", self.ids.0, self.ids.1)
    }

    pub(crate) fn linked(&self) -> Vec<Ids> {
        self.links.iter().map(|(ids, _)| ids.clone()).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(of: Vec<KeyValue>) -> Attributes {
    let text = |value: Option<any_value::Value>| match value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("neither a text nor a number: {other:?}"),
    };
    of.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}

type Received = Arc<Mutex<Vec<Span>>>;

/// Receives spans, until it is dropped.
pub(crate) struct Collector {
    received: Received,
    provider: SdkTracerProvider,
    endpoint: String,
    /// The receiver runs here.
    _runtime: Runtime,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::sampling(Sampler::AlwaysOn)
    }

    pub(crate) fn sampling(sampler: Sampler) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (runtime, received) = (runtime.expect("a runtime"), Received::default());
        let router = Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&received));
        let listener = runtime.block_on(tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))));
        let listener = listener.expect("a port");
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { received, provider: provider(&endpoint, sampler), endpoint, _runtime: runtime }
    }

    pub(crate) fn provider(&self) -> &SdkTracerProvider {
        &self.provider
    }

    /// Where another process can export to.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All that has arrived, in the order in which spans ended.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.provider.force_flush().expect("exported");
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// Waits for exactly `count` spans of a name: more are a failure, too.
    pub(crate) fn wait_for(&self, count: usize, name: &str) -> Vec<Span> {
        let end = Instant::now() + DEADLINE;
        loop {
            let named = self.named(name);
            assert!(named.len() <= count, "{count} spans {name:?} are too many: {named:#?}");
            if named.len() == count {
                return named;
            }
            assert!(Instant::now() < end, "{count} spans {name:?} not within {DEADLINE:?}: {:#?}", self.spans());
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

async fn receive(State(received): State<Received>, body: Bytes) -> StatusCode {
    let request = ExportTraceServiceRequest::decode(body).expect("an export");
    for of_scope in request.resource_spans.into_iter().flat_map(|of_resource| of_resource.scope_spans) {
        let spans = of_scope.spans.into_iter().map(|span| Span::of(span, &of_scope.schema_url));
        received.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
    }
    StatusCode::OK
}

/// A provider that exports to an OTLP receiver.
pub(crate) fn provider(endpoint: &str, sampler: Sampler) -> SdkTracerProvider {
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_endpoint(endpoint);
    let exporter = exporter.build().expect("an exporter");
    SdkTracerProvider::builder().with_sampler(sampler).with_batch_exporter(exporter).build()
}
