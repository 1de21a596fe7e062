use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rocketmq_model::common::message::MessageConst;

use super::record::{HEADERS, KEY, PAYLOAD, is_free};
use crate::message::Headers;
use crate::transport::header;

/// A message of RocketMQ in the terms of the outbox. [`RocketMqConsumer`](crate::consumer::RocketMqConsumer) reads messages so; this is for
/// consumers of your own, with any client.
///
/// ```
/// use diesel_outbox::transport::RocketMqRecord;
/// let properties = [("__SHARDINGKEY", "7"), ("outbox-kind", "order.placed"), ("source", "shop"), ("TAGS", "order.placed")];
/// let record = RocketMqRecord::read(properties, b"{}".to_vec());
/// assert_eq!((record.key.as_deref(), record.payload.as_deref()), (Some(&b"7"[..]), Some(&b"{}"[..])));
/// let headers: Vec<_> = record.headers.iter().collect();
/// assert_eq!(headers, [("outbox-kind", &b"order.placed"[..]), ("source", b"shop")]);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocketMqRecord {
    /// Its key, which is its sharding key unless no property can hold that.
    pub key: Option<Vec<u8>>,
    /// Its payload; `None` for a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Its headers: the outbox's [own](crate::transport::header) first, then the others, by name if each is a property. The broker's properties, such
    /// as the tag, are none. Left out are those with U+0000 in their names, which PostgreSQL cannot hold.
    pub headers: Headers,
}

impl RocketMqRecord {
    /// Reads the properties and the body of a message, whoever sent it.
    pub fn read<'p>(properties: impl IntoIterator<Item = (&'p str, &'p str)>, body: Vec<u8>) -> Self {
        let properties: BTreeMap<&str, &str> = properties.into_iter().collect();
        let encoded = properties.get(KEY).and_then(|key| BASE64.decode(key.strip_prefix('=')?).ok());
        let plain = || properties.get(MessageConst::PROPERTY_SHARDING_KEY).map(|key| key.as_bytes().to_vec());
        let own = header::OWN.iter().filter_map(|name| Some((*name, properties.get(name)?.as_bytes())));
        let mut headers: Headers = own.collect();
        // No database that parks the message may be unable to hold a name.
        let mut add = |name: &str, value: &[u8]| {
            if !name.contains('\0') {
                headers.push(name, value);
            }
        };
        match properties.get(HEADERS).and_then(|all| Headers::from_json(all).ok()) {
            Some(all) => all.iter().for_each(|(name, value)| add(name, value)),
            None => {
                let users = properties.iter().filter(|(name, _)| is_free(name));
                users.for_each(|(name, value)| add(name, value.as_bytes()));
            }
        }
        let payload = match properties.get(PAYLOAD) {
            Some(&"none") => None,
            Some(&"empty") => Some(Vec::new()),
            _ => Some(body),
        };
        Self { key: encoded.or_else(plain), payload, headers }
    }
}

// The key and the payload are the application's data and must not be logged.
impl fmt::Debug for RocketMqRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payload_bytes = self.payload.as_ref().map(Vec::len);
        f.debug_struct("RocketMqRecord")
            .field("headers", &self.headers)
            .field("payload_bytes", &payload_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rocketmq_model::common::message::MessageTrait as _;

    use super::*;
    use crate::message::{Envelope, MessageId};
    use crate::transport::rocketmq::config::RocketMqConfig;
    use crate::transport::rocketmq::record;

    /// What a broker adds to each message.
    const BROKERS: [(&str, &str); 4] =
        [("UNIQ_KEY", "0A"), ("MSG_REGION", "DefaultRegion"), ("__RELEVANT", "x"), ("INNER_NUM", "1")];

    fn read(envelope: &Envelope) -> RocketMqRecord {
        let message =
            record::of(envelope.clone(), &RocketMqConfig::new("a:1")).expect("a record").into_message("orders");
        let properties = message.get_properties();
        let properties = properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(BROKERS);
        let body = message.get_body().map(|body| body.to_vec()).unwrap_or_default();
        RocketMqRecord::read(properties, body)
    }

    #[test]
    fn each_message_is_read_as_it_was_sent() {
        let created_at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
        let keys = [None, Some(""), Some("7"), Some("a\u{1}b")];
        let payloads: [Option<&[u8]>; 4] = [None, Some(b""), Some(&[0]), Some(b"{}")];
        let headers: [&[(&str, &[u8])]; 5] = [
            &[],
            &[("source", b"shop"), ("tenant", b"7")],
            &[("z", b"1"), ("bytes", &[0xff]), ("a", b"2")],
            &[("KEYS", b"mine"), ("outbox-kind", b"mine"), ("__x", b"y"), ("twice", b"1"), ("twice", b"2")],
            &[("INNER_NUM", b"3"), ("empty", b"")],
        ];
        for key in keys {
            for payload in payloads {
                for users in headers {
                    let mut envelope = Envelope::new(MessageId::new(), "orders".into(), created_at);
                    (envelope.key, envelope.payload) = (key.map(str::to_owned), payload.map(<[u8]>::to_vec));
                    (envelope.kind, envelope.attempt) = ("order.placed".to_owned(), 2);
                    envelope.deliver_at = Some(created_at);
                    envelope.headers = users.iter().copied().collect();
                    let read = read(&envelope);
                    let sent: Headers =
                        envelope.all_headers().map(|(name, value)| (name, value.into_owned())).collect();
                    assert_eq!(read.headers, sent, "{users:?}");
                    assert_eq!(read.key.as_deref(), key.map(str::as_bytes));
                    assert_eq!(read.payload.as_deref(), payload);
                }
            }
        }
    }

    #[test]
    fn a_message_of_another_producer_has_its_sharding_key() {
        let read = RocketMqRecord::read([("__SHARDINGKEY", "7"), ("KEYS", "x"), ("TAGS", "t")], b"text".to_vec());
        assert_eq!((read.key.as_deref(), read.headers.len()), (Some(&b"7"[..]), 0));
        assert!(!format!("{read:?}").contains("text"));
    }

    #[test]
    fn a_header_whose_name_a_database_cannot_hold_is_left_out() {
        let whole = Headers::from_iter([("a\0b", "1"), ("a", "2")]).to_json();
        for properties in [[("a\0b", "1"), ("a", "2")], [(HEADERS, &whole), ("TAGS", "t")]] {
            let read = RocketMqRecord::read(properties, Vec::new());
            assert_eq!(read.headers.iter().collect::<Vec<_>>(), [("a", &b"2"[..])]);
        }
    }
}
