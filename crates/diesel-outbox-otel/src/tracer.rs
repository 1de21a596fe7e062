//! Where spans are made.

use std::fmt;
use std::sync::{Arc, LazyLock};

use opentelemetry::global::{self, BoxedTracer, ObjectSafeTracer};
use opentelemetry::trace::TracerProvider;
use opentelemetry::trace::{SpanBuilder, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, InstrumentationScope};

use crate::conventions::SCHEMA_URL;

static SCOPE: LazyLock<InstrumentationScope> = LazyLock::new(|| {
    let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"));
    scope.with_version(env!("CARGO_PKG_VERSION")).with_schema_url(SCHEMA_URL).build()
});

/// The tracer of a given provider, or that of the global one.
#[derive(Clone, Default)]
pub(crate) struct TracerSource(Option<Arc<BoxedTracer>>);

impl TracerSource {
    pub(crate) fn of<P>(provider: &P) -> Self
    where
        P: TracerProvider,
        P::Tracer: ObjectSafeTracer + Send + Sync + 'static,
    {
        Self(Some(Arc::new(BoxedTracer::new(Box::new(provider.tracer_with_scope(SCOPE.clone()))))))
    }

    /// Starts a span, and returns `parent` with it.
    ///
    /// The global provider is asked each time: an outbox may be built before the provider is set.
    pub(crate) fn start(&self, builder: SpanBuilder, parent: &Context) -> Context {
        let span = match &self.0 {
            Some(tracer) => tracer.build_with_context(builder, parent),
            None => global::tracer_with_scope(SCOPE.clone()).build_with_context(builder, parent),
        };
        parent.with_span(span)
    }
}

impl fmt::Debug for TracerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TracerSource::Given" } else { "TracerSource::Global" })
    }
}
