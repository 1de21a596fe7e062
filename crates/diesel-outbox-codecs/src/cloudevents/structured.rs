//! The structured content mode: the payload is the whole event in the JSON format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel_outbox::{Envelope, Headers};
use serde::ser::{SerializeMap as _, Serializer as _};
use serde_json::value::RawValue;

use super::attributes::{Attributes, CONTENT_TYPE, EventRules, SPEC_VERSION, attribute, is_extension, is_json};

const MEDIA_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// Makes the event the payload of a message that has one.
pub(super) fn encode(envelope: &mut Envelope, rules: &EventRules) {
    let Some(data) = envelope.payload.as_deref() else { return };
    let written = event(envelope, data, rules);
    let (event, headers) = written.unwrap_or_else(|error| unreachable!("strings always encode as JSON: {error}"));
    envelope.headers = headers;
    envelope.payload = Some(event);
}

/// The event, and the headers that stay.
fn event(envelope: &Envelope, data: &[u8], rules: &EventRules) -> Result<(Vec<u8>, Headers), serde_json::Error> {
    let attributes = Attributes::of(envelope, rules);
    let mut event = Vec::with_capacity(data.len() + 256);
    let mut json = serde_json::Serializer::new(&mut event);
    let mut members = json.serialize_map(None)?;
    members.serialize_entry("specversion", SPEC_VERSION)?;
    members.serialize_entry("id", &attributes.id)?;
    members.serialize_entry("source", attributes.source)?;
    members.serialize_entry("type", &attributes.kind)?;
    members.serialize_entry("time", &attributes.time)?;
    if let Some(subject) = attributes.subject {
        members.serialize_entry("subject", subject)?;
    }
    let mut headers = Headers::new();
    for (name, value) in envelope.headers.iter() {
        match attribute(name) {
            Some(extension) if is_extension(extension) => {
                members.serialize_entry(extension, &String::from_utf8_lossy(value))?;
            }
            Some(_) => {}
            None if name.eq_ignore_ascii_case(CONTENT_TYPE) => {}
            None => headers.push(name, value),
        }
    }
    members.serialize_entry("datacontenttype", attributes.content_type)?;
    // A row that was written by hand may hold anything: what is no JSON must not break the event's.
    match is_json(attributes.content_type).then(|| serde_json::from_slice::<&RawValue>(data)) {
        Some(Ok(data)) => members.serialize_entry("data", data)?,
        _ => members.serialize_entry("data_base64", &BASE64.encode(data))?,
    }
    members.end()?;
    headers.push(CONTENT_TYPE, MEDIA_TYPE);
    Ok((event, headers))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn envelope(payload: &[u8], headers: &[(&str, &str)]) -> Envelope {
        let id = "01900000-0000-7000-8000-000000000001".parse().expect("an id");
        let mut envelope = Envelope::new(id, "orders".into(), SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
        envelope.kind = "order.placed".to_owned();
        envelope.key = Some("42".to_owned());
        envelope.payload = Some(payload.to_vec());
        envelope.headers = headers.iter().copied().collect();
        envelope
    }

    fn encoded(mut envelope: Envelope) -> (String, Vec<String>) {
        let rules =
            EventRules { source: "/shop".to_owned(), content_type: "application/json".to_owned(), has_subject: true };
        encode(&mut envelope, &rules);
        let payload = String::from_utf8(envelope.payload.expect("a payload")).expect("text");
        let shown = |(name, value): (&str, &[u8])| format!("{name}: {}", String::from_utf8_lossy(value));
        (payload, envelope.headers.iter().map(shown).collect())
    }

    const START: &str = concat!(
        r#"{"specversion":"1.0","id":"01900000-0000-7000-8000-000000000001","source":"/shop","type":"order.placed","#,
        r#""time":"1970-01-01T00:00:01.500Z","subject":"42","#
    );

    #[test]
    fn json_is_a_member_of_the_event() {
        let (payload, headers) = encoded(envelope(br#"{"total": 1.50}"#, &[("tenant", "7"), ("ce_region", "eu")]));
        let rest = r#""region":"eu","datacontenttype":"application/json","data":{"total": 1.50}}"#;
        assert_eq!(payload, format!("{START}{rest}"));
        assert_eq!(headers, ["tenant: 7", "content-type: application/cloudevents+json; charset=utf-8"]);
    }

    #[test]
    fn other_data_is_base64() {
        let (payload, headers) = encoded(envelope(b"\x08\x96\x01", &[("content-type", "application/protobuf")]));
        let rest = r#""datacontenttype":"application/protobuf","data_base64":"CJYB"}"#;
        assert_eq!(payload, format!("{START}{rest}"));
        assert_eq!(headers, ["content-type: application/cloudevents+json; charset=utf-8"]);
    }

    #[test]
    fn a_payload_that_is_no_json_cannot_break_the_event() {
        for broken in [&br#"1},"source":"forged""#[..], b"{} {}", b"", b"\xff"] {
            let (payload, _) = encoded(envelope(broken, &[]));
            let event: serde_json::Value = serde_json::from_str(&payload).expect("JSON");
            assert_eq!(event["source"], "/shop");
            assert_eq!(event["data_base64"], BASE64.encode(broken));
        }
    }

    #[test]
    fn headers_that_are_no_extensions_make_no_members() {
        let (payload, headers) =
            encoded(envelope(b"{}", &[("ce_data", "forged"), ("ce_Upper", "x"), ("ce_id", "forged")]));
        assert_eq!(payload, format!(r#"{START}"datacontenttype":"application/json","data":{{}}}}"#));
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn media_types_of_json_are_recognised() {
        for (media_type, is) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/vnd.shop+json", true),
            ("text/json", true),
            ("application/jsonl", false),
            ("application/protobuf", false),
            ("json", false),
        ] {
            assert_eq!(is_json(media_type), is, "{media_type}");
        }
    }
}
