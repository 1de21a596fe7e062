//! Contexts as headers: W3C's `traceparent` and `tracestate`.

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;

pub(crate) const TRACE_PARENT: &str = "traceparent";
pub(crate) const TRACE_STATE: &str = "tracestate";

/// Whether a name is one of the two. HTTP's names have no case.
pub(crate) fn is_trace_header(name: &str) -> bool {
    name.eq_ignore_ascii_case(TRACE_PARENT) || name.eq_ignore_ascii_case(TRACE_STATE)
}

/// The headers of the span of `context`; none if it has no valid one.
pub(crate) fn of(context: &Context) -> Vec<(String, String)> {
    let mut written = Written(Vec::with_capacity(2));
    TraceContextPropagator::new().inject_context(context, &mut written);
    written.0
}

struct Written(Vec<(String, String)>);

impl Injector for Written {
    fn set(&mut self, name: &str, value: String) {
        // An empty state says as much as none.
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
    }
}

/// The creation context that a message's headers hold; a context without span if they hold none, or an invalid one. Of headers
/// of the same name, the first counts.
pub(crate) fn context<N: AsRef<str>, V: AsRef<[u8]>>(headers: impl IntoIterator<Item = (N, V)>) -> Context {
    let mut read = Read::default();
    for (name, value) in headers {
        let name = name.as_ref();
        let field = if name.eq_ignore_ascii_case(TRACE_PARENT) {
            &mut read.parent
        } else if name.eq_ignore_ascii_case(TRACE_STATE) {
            &mut read.state
        } else {
            continue;
        };
        if field.is_none() {
            *field = std::str::from_utf8(value.as_ref()).ok().map(str::to_owned);
        }
    }
    match read.parent {
        Some(_) => TraceContextPropagator::new().extract_with_context(&Context::new(), &read),
        None => Context::new(),
    }
}

/// The same as the span's context, for a link.
pub(crate) fn span_context<'a>(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Option<SpanContext> {
    Some(context(headers).span().span_context().clone()).filter(SpanContext::is_valid)
}

#[derive(Default)]
struct Read {
    parent: Option<String>,
    state: Option<String>,
}

impl Extractor for Read {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            TRACE_PARENT => self.parent.as_deref(),
            TRACE_STATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACE_PARENT, TRACE_STATE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_comes_back_from_its_headers() {
        let there = context([("source", "shop"), (TRACE_PARENT, PARENT), (TRACE_STATE, "vendor=1")]);
        let span = there.span().span_context().clone();
        assert!(span.is_valid() && span.is_remote() && span.is_sampled());
        assert_eq!(span.trace_state().header(), "vendor=1");
        assert_eq!(
            of(&there),
            [(TRACE_PARENT.to_owned(), PARENT.to_owned()), (TRACE_STATE.to_owned(), "vendor=1".to_owned())]
        );
        let without_state = context([("TraceParent", PARENT)]);
        assert_eq!(of(&without_state), [(TRACE_PARENT.to_owned(), PARENT.to_owned())], "no empty header");
    }

    #[test]
    fn what_is_no_context_is_none() {
        let none: [&[(&str, &[u8])]; 5] = [
            &[],
            &[(TRACE_STATE, b"vendor=1")],
            &[(TRACE_PARENT, b"")],
            &[(TRACE_PARENT, b"\xff")],
            &[(TRACE_PARENT, b"00-00000000000000000000000000000000-b7ad6b7169203331-01")],
        ];
        for headers in none {
            assert_eq!(span_context(headers.iter().copied()), None, "{headers:?}");
            assert_eq!(of(&context(headers.iter().copied())), []);
        }
        let twice = span_context([(TRACE_PARENT, PARENT.as_bytes()), (TRACE_PARENT, b"other")]);
        assert_eq!(twice.expect("the first").span_id().to_string(), "b7ad6b7169203331");
    }
}
