use std::time::UNIX_EPOCH;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::util::IntoOpaque;

use crate::clock::millis;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::message::Envelope;
use crate::transport::header;

/// The record of a message. Without `partition` the client's own partitioner chooses.
///
/// Its time is when it is handed to the client, which is what the client takes where none is given, and keeps over its own retries.
/// `created_at` was the wrong one: a broker deletes by the record's time, so that a message that was delayed, or redriven, for longer
/// than the topic keeps was acknowledged and gone.
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

/// What the time of a record is not.
fn created_ms(envelope: &Envelope) -> i64 {
    envelope.created_at.duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn headers(envelope: &Envelope) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(envelope.headers.len() + 5);
    header::of(envelope).fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(&*value) }))
}
