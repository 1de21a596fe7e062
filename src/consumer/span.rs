//! The span around a handler's call: `tracing`'s, with the attributes of OpenTelemetry's messaging conventions.
//!
//! It is a child of whatever the hook of the application makes its parent: the library knows no OpenTelemetry. **Rejected:** a span of
//! OpenTelemetry itself, which logs would not show, and whose version would be every application's.

use tracing::Span;
use tracing::field::{Empty, display};

use super::engine::Outcome;
use super::options::Options;
use super::record::Record;
use crate::panic_guard::catch_panic;

/// The system whose offsets the conventions have an attribute for.
const KAFKA: &str = "kafka";

/// Begins the span of an attempt; a disabled one if nobody wants it, which costs a load and a comparison. A replay has no number.
pub(super) fn begin(options: &Options, record: &Record, attempt: Option<u32>) -> Span {
    let offset_of = |is_kafka: bool| ((options.system == KAFKA) == is_kafka).then_some(record.offset);
    let span = tracing::info_span!(
        "process",
        "otel.name" = %format_args!("process {}", record.topic()),
        "otel.kind" = "consumer",
        "otel.status_code" = Empty,
        "otel.status_description" = Empty,
        "error.type" = Empty,
        "messaging.operation.name" = "process",
        "messaging.operation.type" = "process",
        "messaging.system" = options.system,
        "messaging.destination.name" = record.topic(),
        "messaging.destination.partition.id" = record.partition(),
        "messaging.consumer.group.name" = &*options.consumer,
        "messaging.message.id" = record.message_id().map(display),
        "messaging.kafka.offset" = offset_of(true),
        "outbox.offset" = offset_of(false),
        "outbox.kind" = record.kind(),
        "outbox.attempt" = attempt.map(i64::from),
    );
    if let Some(hook) = options.on_span.as_ref().filter(|_| !span.is_disabled()) {
        // A panic of the hook costs the parent, not the record.
        let _ = catch_panic("on_span", record.topic(), || (hook.0)(&span, record));
    }
    span
}

/// Ends the span, with what failed.
pub(super) fn end(span: &Span, outcome: &Outcome) {
    if span.is_disabled() {
        return;
    }
    if let Some((class, text)) = failure(outcome) {
        span.record("error.type", class);
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", display(text));
    }
}

/// The class of a failure, one of few, and its text.
fn failure(outcome: &Outcome) -> Option<(&'static str, String)> {
    match outcome {
        Outcome::Failed(error) if error.is_retriable() => Some(("retriable", error.to_string())),
        Outcome::Failed(error) => Some(("permanent", error.to_string())),
        Outcome::ConnectionLost(error) => Some(("connection_lost", error.to_string())),
        Outcome::Conflict => Some(("conflict", "a deadlock, or a serialization failure".to_owned())),
        Outcome::Postponed(error) => Some(("postponed", error.clone())),
        Outcome::DatabaseAway(error) => Some(("database_away", error.clone())),
        Outcome::Handled
        | Outcome::Duplicate { .. }
        | Outcome::TooOld
        | Outcome::Parked
        | Outcome::ParkedAlone
        | Outcome::Replayed { .. }
        | Outcome::BatchRefused
        | Outcome::BatchFailed
        | Outcome::OffsetMoved => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use tracing::subscriber::{NoSubscriber, with_default};

    use super::*;
    use crate::consumer::error::HandlerError;
    use crate::consumer::options::SpanHook;
    use crate::consumer::record::PartitionId;
    use crate::message::{Headers, MessageId};
    use crate::transport::header;

    fn record() -> Record {
        let partition = PartitionId { topic: "orders".into(), name: "3".into() };
        Record { partition, offset: 7, key: None, payload: None, headers: Headers::new(), timestamp: None }
    }

    /// Options whose hook counts its calls.
    fn options(system: &'static str) -> (Options, Arc<AtomicU32>) {
        let calls = Arc::new(AtomicU32::new(0));
        let of_hook = Arc::clone(&calls);
        let mut options = Options::new(system, "billing".into());
        options.on_span = Some(SpanHook(Arc::new(move |_, _| {
            of_hook.fetch_add(1, Ordering::SeqCst);
        })));
        (options, calls)
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What a log line within the span shows of it, and how often the hook was called.
    fn shown(system: &'static str, record: &Record, outcome: &Outcome) -> (String, u32) {
        let (options, calls) = options(system);
        let written = Written::default();
        let of_log = written.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || of_log.clone());
        let subscriber = subscriber.with_max_level(tracing::Level::DEBUG).finish();
        with_default(subscriber, || {
            let span = begin(&options, record, Some(2));
            end(&span, outcome);
            let _entered = span.enter();
            tracing::debug!("of this test");
        });
        let line = String::from_utf8(written.0.lock().expect("no panic").clone()).expect("text");
        (line, calls.load(Ordering::SeqCst))
    }

    #[test]
    fn without_a_subscriber_there_is_no_span_and_the_hook_is_not_called() {
        let (options, calls) = options(KAFKA);
        let span = with_default(NoSubscriber::default(), || begin(&options, &record(), Some(1)));
        assert!(span.is_disabled());
        end(&span, &Outcome::Conflict);
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn the_span_has_the_records_place_and_what_failed() {
        let (mut record, id) = (record(), MessageId::new());
        record.headers.push(header::MESSAGE_ID, id.to_string());
        let (line, calls) = shown(KAFKA, &record, &Outcome::Failed(HandlerError::permanent("no such unit")));
        let id = format!("messaging.message.id={id}");
        for part in [
            "otel.name=process orders",
            "messaging.destination.partition.id=\"3\"",
            "messaging.consumer.group.name=\"billing\"",
            "messaging.kafka.offset=7",
            "outbox.attempt=2",
            "error.type=\"permanent\"",
            "otel.status_description=no such unit",
            &id,
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_success_is_no_error_and_rocketmqs_offset_is_none_of_kafkas() {
        let (line, _) = shown("rocketmq", &record(), &Outcome::Handled);
        assert!(line.contains("outbox.offset=7") && !line.contains("messaging.kafka.offset"), "{line}");
        assert!(!line.contains("error.type") && !line.contains("otel.status_code"), "{line}");
    }

    #[test]
    fn a_hook_that_panics_costs_no_record() {
        let mut options = Options::new(KAFKA, "billing".into());
        options.on_span = Some(SpanHook(Arc::new(|_, _| panic!("of this test"))));
        let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        with_default(subscriber, || assert!(!begin(&options, &record(), None).is_disabled()));
    }
}
