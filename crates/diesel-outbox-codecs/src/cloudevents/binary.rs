//! The binary content mode: the data is the payload, and each attribute is a header.

use std::borrow::Cow;
use std::fmt::Write as _;

use diesel_outbox::{Envelope, Headers};

use super::attributes::{
    Attributes, CONTENT_TYPE, EventRules, PREFIX, SPEC_VERSION, attribute, content_type, is_extension,
};

/// How a broker has attributes as headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// `ce_id`, values as they are.
    Kafka,
    /// `ce-id`, values percent-encoded.
    Http,
}

impl Binding {
    /// For a transport by its [`system`](diesel_outbox::transport::Transport::system). The specification names only these two of ours.
    pub(super) fn of(system: &str) -> Self {
        if system == "http" { Self::Http } else { Self::Kafka }
    }

    fn push(self, headers: &mut Headers, attribute: &str, value: &str) {
        match self {
            Self::Kafka => headers.push(format!("{PREFIX}{attribute}"), value),
            Self::Http => headers.push(format!("ce-{attribute}"), percent_encoded(value).as_bytes()),
        }
    }
}

/// Adds the attributes to the headers of a message.
pub(super) fn encode(envelope: &mut Envelope, rules: &EventRules, binding: Binding) {
    let attributes = Attributes::of(envelope, rules);
    let mut headers = extensions(&envelope.headers, binding);
    binding.push(&mut headers, "specversion", SPEC_VERSION);
    binding.push(&mut headers, "id", &attributes.id);
    binding.push(&mut headers, "source", attributes.source);
    binding.push(&mut headers, "type", &attributes.kind);
    binding.push(&mut headers, "time", &attributes.time);
    if let Some(subject) = attributes.subject {
        binding.push(&mut headers, "subject", subject);
    }
    // Without data there is no type of it.
    if envelope.payload.is_some() && content_type(&headers).is_none() {
        headers.push(CONTENT_TYPE, attributes.content_type);
    }
    envelope.headers = headers;
}

/// The message's own headers, with the names of extensions as this binding has them.
fn extensions(own: &Headers, binding: Binding) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in own.iter() {
        match attribute(name) {
            // Others have no place in an event: `structured` drops them, too.
            Some(attribute) if !is_extension(attribute) => {}
            Some(attribute) if binding == Binding::Http => {
                binding.push(&mut headers, attribute, &String::from_utf8_lossy(value));
            }
            _ => headers.push(name, value),
        }
    }
    headers
}

/// As section 3.1.3.2 of the HTTP binding demands: other characters than printable ASCII, space, `"` and `%`.
fn percent_encoded(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (b'!'..=b'~').contains(&byte) && byte != b'"' && byte != b'%';
    if value.bytes().all(is_plain) {
        return Cow::Borrowed(value);
    }
    let mut encoded = String::with_capacity(value.len() + 16);
    for byte in value.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn rules() -> EventRules {
        EventRules { source: "/shop".to_owned(), content_type: "application/json".to_owned(), has_subject: true }
    }

    fn envelope() -> Envelope {
        let id = "01900000-0000-7000-8000-000000000001".parse().expect("an id");
        let mut envelope = Envelope::new(id, "orders".into(), SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
        envelope.kind = "order.placed".to_owned();
        envelope.key = Some("42".to_owned());
        envelope.payload = Some(b"{}".to_vec());
        envelope.headers.push("source", "shop");
        envelope
    }

    fn shown(envelope: &Envelope) -> Vec<String> {
        let shown = |(name, value): (&str, &[u8])| format!("{name}: {}", String::from_utf8_lossy(value));
        envelope.headers.iter().map(shown).collect()
    }

    #[test]
    fn attributes_are_headers_of_kafka() {
        let mut envelope = envelope();
        encode(&mut envelope, &rules(), Binding::Kafka);
        let expected = [
            "source: shop",
            "ce_specversion: 1.0",
            "ce_id: 01900000-0000-7000-8000-000000000001",
            "ce_source: /shop",
            "ce_type: order.placed",
            "ce_time: 1970-01-01T00:00:01.500Z",
            "ce_subject: 42",
            "content-type: application/json",
        ];
        assert_eq!(shown(&envelope), expected);
        assert_eq!(envelope.payload.as_deref(), Some(&b"{}"[..]));
    }

    #[test]
    fn attributes_are_percent_encoded_for_http() {
        // The example of section 3.1.3.2, and the characters that it lists.
        assert_eq!(percent_encoded("Euro \u{20ac} \u{1f600}"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(percent_encoded("a\"b%c!~"), "a%22b%25c!~");
        let mut envelope = envelope();
        envelope.kind = "50% off".to_owned();
        envelope.headers.push("ce_traceparent", "00-1");
        encode(&mut envelope, &rules(), Binding::Http);
        let shown = shown(&envelope);
        assert!(shown.contains(&"ce-type: 50%25%20off".to_owned()), "{shown:?}");
        assert!(shown.contains(&"ce-traceparent: 00-1".to_owned()), "{shown:?}");
        assert!(shown.contains(&"source: shop".to_owned()), "{shown:?}");
    }

    #[test]
    fn a_message_chooses_its_media_type_and_extensions_but_no_other_attribute() {
        let mut envelope = envelope();
        envelope.kind = String::new();
        for (name, value) in [("Content-Type", "application/protobuf"), ("ce_region", "eu"), ("ce_id", "forged")] {
            envelope.headers.push(name, value);
        }
        encode(&mut envelope, &EventRules { has_subject: false, ..rules() }, Binding::Kafka);
        let shown = shown(&envelope);
        assert_eq!(shown.iter().filter(|header| header.to_lowercase().starts_with("content-type")).count(), 1);
        assert!(
            shown.contains(&"ce_region: eu".to_owned()) && shown.contains(&"ce_type: orders".to_owned()),
            "{shown:?}"
        );
        assert_eq!(shown.iter().filter(|header| header.starts_with("ce_id:")).count(), 1, "{shown:?}");
        assert!(!shown.iter().any(|header| header.contains("forged") || header.starts_with("ce_subject")), "{shown:?}");
    }

    #[test]
    fn a_tombstone_stays_one() {
        let mut envelope = envelope();
        envelope.payload = None;
        encode(&mut envelope, &rules(), Binding::Kafka);
        assert_eq!(envelope.payload, None);
        assert!(!shown(&envelope).iter().any(|header| header.starts_with("content-type")));
    }
}
