use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cheetah_string::CheetahString;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_model::common::message::{MessageConst, STRING_HASH_SET};
use rocketmq_protocol::common::message::message_decoder::str_to_message_properties;

use super::config::RocketMqConfig;
use super::error::NotSent;
use crate::limits::{ROCKETMQ_FRAME_BYTES_MAX, ROCKETMQ_PROPERTIES_BYTES_MAX};
use crate::message::{Envelope, Headers};
use crate::transport::header;

/// All headers in order, as in the `headers` column; present if a property cannot hold one of them.
pub(super) const HEADERS: &str = "outbox-headers";
/// The key in base64, if a property cannot hold it as it is.
pub(super) const KEY: &str = "outbox-key";
/// `none` for a tombstone and `empty` for an empty payload: a broker refuses both, so the body is one zero byte.
pub(super) const PAYLOAD: &str = "outbox-payload";

/// Names that brokers use too, next to those that the client library reserves. All names that begin with `__` are
/// theirs.
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

/// Written after a name, and after its value.
const SEPARATORS: [char; 2] = ['\u{1}', '\u{2}'];

/// What a broker stores of a message.
pub(super) struct Record {
    pub(super) body: Vec<u8>,
    /// Names and values in wire form, each with its separator.
    pub(super) properties: String,
}

/// The record of an envelope.
pub(super) fn of(envelope: Envelope, config: &RocketMqConfig) -> Result<Record, NotSent> {
    let mut properties = Properties::with_room_for(&envelope);
    let id = envelope.message_id.to_string();
    properties.put(header::MESSAGE_ID, &[&id]);
    if envelope.attempt > 1 {
        properties.put(header::ATTEMPT, &[&envelope.attempt.to_string()]);
    }
    properties.put_if_fit(header::KIND, &envelope.kind);
    properties.put(header::CREATED_AT, &[&header::millis(envelope.created_at).to_string()]);
    if let Some(at) = envelope.deliver_at {
        properties.put(header::DELIVER_AT, &[&header::millis(at).to_string()]);
    }
    let tag = config.tag_header.as_ref().and_then(|name| std::str::from_utf8(envelope.headers.get(name)?).ok());
    let tag = tag.unwrap_or(&envelope.kind);
    // A tag that contains a subscription operator could not be subscribed to.
    if !tag.contains("||") {
        properties.put_if_fit(MessageConst::PROPERTY_TAGS, tag);
    }
    match &envelope.key {
        Some(key) if fits(key) => {
            properties.put(MessageConst::PROPERTY_KEYS, &[&id, " ", key]);
            properties.put(MessageConst::PROPERTY_SHARDING_KEY, &[key]);
        }
        Some(key) => {
            properties.put(MessageConst::PROPERTY_KEYS, &[&id]);
            // Never empty: otherwise an empty key would look like no key.
            properties.put(KEY, &["=", &BASE64.encode(key)]);
        }
        None => properties.put(MessageConst::PROPERTY_KEYS, &[&id]),
    }
    if let Some(delay) = config.broker_delays.get(&envelope.topic) {
        properties.put(MessageConst::PROPERTY_TIMER_DELAY_MS, &[&delay.as_millis().to_string()]);
    }
    properties.put_headers(&envelope.headers);
    let body = match envelope.payload {
        Some(payload) if !payload.is_empty() => payload,
        without => {
            properties.put(PAYLOAD, &[if without.is_some() { "empty" } else { "none" }]);
            vec![0]
        }
    };
    if body.len() > config.message_bytes_max {
        return Err(NotSent::TooLarge { bytes: body.len() });
    }
    let Properties(properties) = properties;
    if properties.len() > ROCKETMQ_PROPERTIES_BYTES_MAX {
        return Err(NotSent::PropertiesTooLarge { bytes: properties.len() });
    }
    Ok(Record { body, properties })
}

impl Record {
    /// The message for a request of its own.
    pub(super) fn into_message(self, wire_topic: &str) -> Message {
        let mut message = Message::default();
        message.set_topic(CheetahString::from_slice(wire_topic));
        message.set_body(Some(self.body.into()));
        message.set_properties(str_to_message_properties(Some(&self.properties)));
        message
    }
}

/// The most bytes that a message takes in a batch, approximately.
pub(super) fn size_bytes(envelope: &Envelope) -> usize {
    envelope.size_bytes()
        + envelope.key.as_ref().map_or(0, String::len)
        + 2 * envelope.kind.len()
        + ROCKETMQ_FRAME_BYTES_MAX
}

struct Properties(String);

impl Properties {
    fn with_room_for(envelope: &Envelope) -> Self {
        let payload = envelope.payload.as_ref().map_or(0, Vec::len);
        Self(String::with_capacity(size_bytes(envelope) - payload))
    }

    /// Adds a property. No part of its value may contain a separator, and at least one part must not be empty.
    fn put(&mut self, name: &str, value: &[&str]) {
        self.0.push_str(name);
        self.0.push(SEPARATORS[0]);
        value.iter().for_each(|part| self.0.push_str(part));
        self.0.push(SEPARATORS[1]);
    }

    /// Adds a property unless its value is empty or invalid.
    fn put_if_fit(&mut self, name: &str, value: &str) {
        if fits(value) {
            self.put(name, &[value]);
        }
    }

    fn put_headers(&mut self, headers: &Headers) {
        let (mut whole, mut names) = (true, HashSet::new());
        for (name, value) in headers.iter() {
            let value = std::str::from_utf8(value).ok().filter(|value| is_free(name) && fits(name) && fits(value));
            match value {
                Some(value) if names.insert(name) => self.put(name, &[value]),
                _ => whole = false,
            }
        }
        if !whole {
            // Its control characters are escaped.
            self.put(HEADERS, &[&headers.to_json()]);
        }
    }
}

/// Whether a name is neither a broker's nor the outbox's own.
pub(super) fn is_free(name: &str) -> bool {
    let is_taken = STRING_HASH_SET.contains(name) || BROKERS_OWN.contains(&name);
    !is_taken && !name.starts_with("outbox-") && !name.starts_with("__")
}

/// Whether a property can hold the text: a broker drops an empty one.
fn fits(text: &str) -> bool {
    !text.is_empty() && !text.contains(SEPARATORS)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rocketmq_model::common::message::MessageTrait as _;

    use super::*;
    use crate::limits::ROCKETMQ_MESSAGE_BYTES_MAX;
    use crate::message::MessageId;

    fn envelope() -> Envelope {
        let created_at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), created_at);
        envelope.payload = Some(b"{}".to_vec());
        envelope
    }

    fn properties(envelope: &Envelope, config: &RocketMqConfig) -> Vec<(String, String)> {
        let message = of(envelope.clone(), config).expect("a record").into_message("orders");
        let mut properties: Vec<_> =
            message.get_properties().iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        properties.sort();
        properties
    }

    fn held(envelope: &Envelope, config: &RocketMqConfig, name: &str) -> Option<String> {
        properties(envelope, config).into_iter().find(|(held, _)| held == name).map(|(_, value)| value)
    }

    #[test]
    fn key_kind_and_headers_are_properties() {
        let (config, mut envelope) = (RocketMqConfig::new("a:1"), envelope());
        envelope.key = Some("customer 7".to_owned());
        envelope.kind = "order.placed".to_owned();
        envelope.headers.push("source", "shop");
        let id = envelope.message_id.to_string();
        let keys = format!("{id} customer 7");
        let expected = [
            ("KEYS", keys.as_str()),
            ("TAGS", "order.placed"),
            ("__SHARDINGKEY", "customer 7"),
            ("outbox-created-at", "1234"),
            ("outbox-kind", "order.placed"),
            ("outbox-message-id", &id),
            ("source", "shop"),
        ];
        assert_eq!(properties(&envelope, &config), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn headers_that_fit_no_property_are_sent_unchanged() {
        let config = RocketMqConfig::new("a:1");
        let cases: [(&str, &[u8]); 9] = [
            ("bytes", &[0xff]),
            ("empty", b""),
            ("KEYS", b"mine"),
            ("INNER_NUM", b"3"),
            ("INNER_BASE", b"AA=="),
            ("INNER_MULTI_DISPATCH", b"a,b"),
            ("outbox-attempt", b"9"),
            ("a\u{1}", b"x"),
            ("__x", b"y"),
        ];
        for (name, value) in cases {
            let mut envelope = envelope();
            envelope.headers.push("plain", "text");
            envelope.headers.push(name, value);
            let held = |name| held(&envelope, &config, name);
            assert_ne!(held(name).as_deref().map(str::as_bytes), Some(value), "{name:?}");
            assert_eq!(held(HEADERS), Some(envelope.headers.to_json()), "{name:?}");
            assert_eq!(held("plain").as_deref(), Some("text"));
            assert_eq!(held("outbox-attempt"), None, "a message cannot set the outbox's own properties");
        }
    }

    #[test]
    fn attempts_are_numbered_from_the_second_on() {
        let (config, mut envelope) = (RocketMqConfig::new("a:1"), envelope());
        assert_eq!(held(&envelope, &config, header::ATTEMPT), None);
        envelope.attempt = 2;
        assert_eq!(held(&envelope, &config, header::ATTEMPT).as_deref(), Some("2"));
    }

    #[test]
    fn a_delayed_message_has_its_due_time_header() {
        let (config, mut envelope) = (RocketMqConfig::new("a:1"), envelope());
        assert_eq!(held(&envelope, &config, header::DELIVER_AT), None);
        envelope.deliver_at = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(5_678));
        assert_eq!(held(&envelope, &config, header::DELIVER_AT).as_deref(), Some("5678"));
    }

    #[test]
    fn a_tag_may_come_from_a_header() {
        let config = RocketMqConfig::new("a:1").tag_from_header("tag");
        let mut envelope = envelope();
        envelope.kind = "order.placed".to_owned();
        assert_eq!(held(&envelope, &config, "TAGS").as_deref(), Some("order.placed"));
        envelope.headers.push("tag", "urgent");
        assert_eq!(held(&envelope, &config, "TAGS").as_deref(), Some("urgent"));
        envelope.headers = [("tag", "a||b")].into_iter().collect();
        assert_eq!(held(&envelope, &config, "TAGS"), None, "nobody could subscribe to it");
    }

    #[test]
    fn messages_within_the_limits_of_brokers_are_sent() {
        let (config, mut most) = (RocketMqConfig::new("a:1"), envelope());
        most.payload = Some(vec![b'x'; ROCKETMQ_MESSAGE_BYTES_MAX]);
        assert!(of(most.clone(), &config).is_ok());
        most.payload.get_or_insert_default().push(b'x');
        assert!(matches!(of(most, &config), Err(NotSent::TooLarge { .. })));
        // In addition to the outbox's own properties.
        for (bytes, is_taken) in [(ROCKETMQ_PROPERTIES_BYTES_MAX - 1_000, true), (ROCKETMQ_PROPERTIES_BYTES_MAX, false)]
        {
            let mut wide = envelope();
            wide.headers.push("wide", "x".repeat(bytes));
            assert_eq!(of(wide, &config).is_ok(), is_taken, "{bytes}");
        }
    }

    #[test]
    fn invalid_messages_are_not_sent() {
        let config = RocketMqConfig::new("a:1").message_bytes_max(10);
        let mut large = envelope();
        large.payload = Some(vec![b'x'; 11]);
        assert!(matches!(of(large, &config), Err(NotSent::TooLarge { bytes: 11 })));
        let mut wide = envelope();
        wide.headers.push("wide", "x".repeat(33_000));
        assert!(matches!(of(wide, &config), Err(NotSent::PropertiesTooLarge { .. })));
    }
}
