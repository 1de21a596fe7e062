use std::time::UNIX_EPOCH;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::util::IntoOpaque;

use crate::message::Envelope;
use crate::transport::header;

/// The record of a message. Without `partition` the client's own partitioner chooses.
pub(super) fn record<T: IntoOpaque>(
    envelope: &Envelope,
    partition: Option<i32>,
    ticket: T,
) -> BaseRecord<'_, str, [u8], T> {
    BaseRecord {
        topic: &envelope.topic,
        partition,
        payload: envelope.payload.as_deref(),
        key: envelope.key.as_deref(),
        timestamp: Some(timestamp_ms(envelope)),
        headers: Some(headers(envelope)),
        delivery_opaque: ticket,
    }
}

/// When the row was written. At least 1, because the client takes 0 for "now".
fn timestamp_ms(envelope: &Envelope) -> i64 {
    let since_epoch = envelope.created_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn headers(envelope: &Envelope) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(envelope.headers.len() + 3);
    header::of(envelope).fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(&*value) }))
}
