//! The context in which the caller runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use opentelemetry::Context;
#[cfg(feature = "tracing")]
use opentelemetry::trace::TraceContextExt as _;

/// The active context. With the feature `tracing` and none active, that of the current span of `tracing`: its OpenTelemetry
/// layer may be set not to activate contexts.
pub(crate) fn context() -> Context {
    let active = Context::current();
    #[cfg(feature = "tracing")]
    if !active.has_active_span() {
        return tracing_opentelemetry::OpenTelemetrySpanExt::context(&tracing::Span::current());
    }
    active
}

/// Calls the SDK. A panic of a sampler, a processor or an exporter costs the span, never the message; it was printed where the
/// process's panics go.
pub(crate) fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
