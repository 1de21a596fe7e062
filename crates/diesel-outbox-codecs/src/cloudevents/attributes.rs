//! The attributes of a message's event.

use std::borrow::Cow;

use diesel_outbox::{Envelope, Headers};

/// Begins the name of a header with an attribute, in a row and in Kafka. HTTP has `ce-`.
pub(super) const PREFIX: &str = "ce_";

pub(super) const CONTENT_TYPE: &str = "content-type";

pub(super) const SPEC_VERSION: &str = "1.0";

/// What is the same for all events of a transport.
#[derive(Debug, Clone)]
pub(super) struct EventRules {
    pub(super) source: String,
    pub(super) content_type: String,
    pub(super) has_subject: bool,
}

/// The attributes of the specification; extensions are among the headers.
pub(super) struct Attributes<'e> {
    pub(super) id: String,
    pub(super) source: &'e str,
    pub(super) kind: Cow<'e, str>,
    pub(super) time: String,
    pub(super) subject: Option<&'e str>,
    pub(super) content_type: &'e str,
}

impl<'e> Attributes<'e> {
    pub(super) fn of(envelope: &'e Envelope, rules: &'e EventRules) -> Self {
        let own = content_type(&envelope.headers);
        Self {
            id: envelope.message_id.to_string(),
            source: &rules.source,
            kind: Cow::Borrowed(if envelope.kind.is_empty() { &*envelope.topic } else { &envelope.kind }),
            time: humantime::format_rfc3339_millis(envelope.created_at).to_string(),
            // An empty subject is not allowed.
            subject: envelope.key.as_deref().filter(|key| rules.has_subject && !key.is_empty()),
            content_type: own.unwrap_or(&rules.content_type),
        }
    }
}

/// The value of a message's header `content-type`.
pub(super) fn content_type(headers: &Headers) -> Option<&str> {
    let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
    found.and_then(|(_, value)| std::str::from_utf8(value).ok())
}

/// The attribute whose value a header has.
pub(super) fn attribute(header: &str) -> Option<&str> {
    header.strip_prefix(PREFIX)
}

/// Whether a name is that of an attribute that every event may have: a message cannot set those by a header.
pub(super) fn is_own(attribute: &str) -> bool {
    ["specversion", "id", "source", "type", "time", "subject", "datacontenttype", "data", "data_base64"]
        .contains(&attribute)
}

/// Whether a name may be an extension's: lower-case letters and digits.
pub(super) fn is_extension(attribute: &str) -> bool {
    !attribute.is_empty()
        && !is_own(attribute)
        && attribute.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Whether data of this media type is JSON: `application/json`, or one that ends in `+json`.
pub(super) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    subtype.eq_ignore_ascii_case("json") || subtype.to_ascii_lowercase().ends_with("+json")
}
