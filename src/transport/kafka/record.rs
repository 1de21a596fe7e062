use std::time::UNIX_EPOCH;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::util::IntoOpaque;

use crate::clock::millis;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::message::Envelope;

/// The record of a message. Without `partition` the client's own partitioner chooses.
///
/// Its timestamp is the time of hand-over: the client's default, which stays the same over its own retries.
/// `created_at` would be wrong, because a broker deletes by the record's timestamp. A message that was delayed or
/// redriven for longer than the topic's retention would be acknowledged and then deleted.
pub(super) fn record<T: IntoOpaque>(
    envelope: &Envelope,
    partition: Option<i32>,
    send_context: T,
) -> BaseRecord<'_, str, [u8], T> {
    BaseRecord {
        topic: &envelope.topic,
        partition,
        payload: envelope.payload.as_deref(),
        key: envelope.key.as_deref(),
        timestamp: is_injected(InjectedBug::RecordTimeIsCreation).then(|| created_ms(envelope)),
        headers: Some(headers(envelope)),
        delivery_opaque: send_context,
    }
}

/// Must not be the record's timestamp.
fn created_ms(envelope: &Envelope) -> i64 {
    envelope.created_at.duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn headers(envelope: &Envelope) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(envelope.headers.len() + 5);
    envelope.all_headers().fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(&*value) }))
}
