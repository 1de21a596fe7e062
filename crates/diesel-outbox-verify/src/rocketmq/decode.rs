use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel_outbox::Headers;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::{MessageConst, STRING_HASH_SET};

use crate::record::{OWN_HEADERS, Record};

/// All headers, if a property cannot hold one of them.
const HEADERS: &str = "outbox-headers";
/// The key in base64, if a property cannot hold it.
const KEY: &str = "outbox-key";
/// `none` for a tombstone and `empty` for an empty payload.
const PAYLOAD: &str = "outbox-payload";

/// Properties that brokers add, next to those that the client library reserves. The transport lets no header have such a name.
const BROKERS_OWN: [&str; 10] = [
    MessageConst::PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS,
    MessageConst::PROPERTY_FORWARD_QUEUE_ID,
    MessageConst::PROPERTY_INNER_BASE,
    MessageConst::PROPERTY_INNER_MULTI_DISPATCH,
    MessageConst::PROPERTY_INNER_NUM,
    MessageConst::PROPERTY_REDIRECT,
    MessageConst::PROPERTY_TIMER_ROLL_LABEL,
    MessageConst::PROPERTY_TRACE_CONTEXT,
    MessageConst::PROPERTY_TRANS_OFFSET,
    MessageConst::PROPERTY_TRANSACTION_CHECK_TIMES,
];

/// A message of a queue in the terms of the outbox.
pub(super) fn record(partition: u32, message: &MessageExt) -> Record {
    let properties = message.properties();
    let properties = properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let body = message.body().map(|body| body.to_vec()).unwrap_or_default();
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(message.store_timestamp().try_into().unwrap_or_default());
    of(Record::new(partition, message.queue_offset(), at), &properties, body)
}

fn of(mut record: Record, properties: &HashMap<&str, &str>, body: Vec<u8>) -> Record {
    for name in OWN_HEADERS {
        if let Some(value) = properties.get(name) {
            record.take_own(name, value);
        }
    }
    let encoded = properties.get(KEY).and_then(|key| BASE64.decode(key.strip_prefix('=')?).ok());
    let key = properties.get(MessageConst::PROPERTY_SHARDING_KEY).map(|key| key.as_bytes().to_vec());
    record.key = encoded.or(key);
    record.payload = match properties.get(PAYLOAD) {
        Some(&"none") => None,
        Some(&"empty") => Some(Vec::new()),
        _ => Some(body),
    };
    record.headers = match properties.get(HEADERS).and_then(|all| Headers::from_json(all).ok()) {
        Some(all) => all,
        None => properties.iter().filter(|(name, _)| is_users(name)).map(|(name, value)| (*name, *value)).collect(),
    };
    record
}

/// Whether a property is a header of the user.
fn is_users(name: &str) -> bool {
    let is_brokers = STRING_HASH_SET.contains(name) || BROKERS_OWN.contains(&name);
    !is_brokers && !name.starts_with("outbox-") && !name.starts_with("__")
}

#[cfg(test)]
mod tests {
    use diesel_outbox::MessageId;

    use super::*;

    fn record(properties: &[(&str, &str)], body: &[u8]) -> Record {
        let properties = properties.iter().copied().collect();
        of(Record::new(0, 0, SystemTime::UNIX_EPOCH), &properties, body.to_vec())
    }

    #[test]
    fn properties_are_read_as_the_transport_writes_them() {
        let id = MessageId::new();
        let read = record(
            &[
                ("KEYS", "x 7"),
                ("TAGS", "order.placed"),
                ("UNIQ_KEY", "0A"),
                ("__SHARDINGKEY", "7"),
                ("outbox-created-at", "1234"),
                ("outbox-kind", "order.placed"),
                ("outbox-message-id", &id.to_string()),
                ("source", "shop"),
            ],
            b"{}",
        );
        assert_eq!((read.message_id, &*read.kind), (Some(id), "order.placed"));
        assert_eq!((read.key.as_deref(), read.payload.as_deref()), (Some(&b"7"[..]), Some(&b"{}"[..])));
        assert_eq!(read.headers, [("source", "shop")].into_iter().collect());
    }

    #[test]
    fn what_fits_no_property_is_read_from_where_it_is() {
        let headers: Headers = [("KEYS", "mine"), ("a", "1")].into_iter().collect();
        let read = record(
            &[("a", "1"), ("outbox-headers", &headers.to_json()), ("outbox-key", "=AQI="), ("outbox-payload", "none")],
            &[0],
        );
        assert_eq!(read.headers, headers);
        assert_eq!((read.key.as_deref(), read.payload), (Some(&[1, 2][..]), None));
        assert_eq!(record(&[("outbox-payload", "empty")], &[0]).payload, Some(Vec::new()));
    }
}
