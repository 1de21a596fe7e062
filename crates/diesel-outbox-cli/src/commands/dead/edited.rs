//! A dead letter as a document to be edited.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel_outbox::admin::DeadLetter;
use diesel_outbox::{Headers, Message};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What may be changed. A header's value and a payload are text, or `{"b64": ..}` if they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edited {
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) kind: String,
    pub(super) headers: Vec<(String, Bytes)>,
    /// `null` is a tombstone.
    pub(super) payload: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Bytes {
    Text(String),
    Binary { b64: String },
}

impl Bytes {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { b64: BASE64.encode(bytes) },
        }
    }

    fn into_bytes(self) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Binary { b64 } => {
                BASE64.decode(b64).map_err(|error| Error::failed(format!("a b64 value is not base64: {error}")))
            }
        }
    }
}

impl Edited {
    /// As it is now. Headers that cannot be read are left out, which the caller says.
    pub(super) fn of(letter: &DeadLetter) -> Self {
        let headers = letter.headers().unwrap_or_default();
        Self {
            topic: letter.topic.to_string(),
            key: letter.key.clone(),
            kind: letter.kind.clone(),
            headers: headers.iter().map(|(name, value)| (name.to_owned(), Bytes::of(value))).collect(),
            payload: letter.payload.as_deref().map(Bytes::of),
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|error| Error::failed(format!("the edited message is not one: {error}")))
    }

    pub(super) fn text(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::failed(format!("the message cannot be written: {error}")))
    }

    pub(super) fn into_message(self) -> Result<Message, Error> {
        let mut headers = Headers::new();
        for (name, value) in self.headers {
            headers.push(name, value.into_bytes()?);
        }
        let mut message = Message::to(self.topic).kind(self.kind).replace_headers(headers);
        if let Some(key) = self.key {
            message = message.key(key);
        }
        if let Some(payload) = self.payload {
            message = message.payload_bytes(payload.into_bytes()?);
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use diesel_outbox::OutboxMessage;

    use super::*;

    #[test]
    fn a_document_becomes_the_message_it_shows() {
        let text = r#"{"topic": "orders", "key": "42", "kind": "placed", "headers": [["a", "b"], ["raw", {"b64": "/w=="}]],
            "payload": "{\"n\": 9007199254740993}"}"#;
        let edited = Edited::parse(text).unwrap();
        assert_eq!(Edited::parse(&edited.text().unwrap()).unwrap(), edited);
        let message = edited.into_message().unwrap();
        assert_eq!((message.topic(), OutboxMessage::kind(&message)), ("orders".into(), "placed".into()));
        assert_eq!(OutboxMessage::key(&message), Some("42".into()));
        assert_eq!(message.headers(), [("a", b"b".to_vec()), ("raw", vec![0xff])].into_iter().collect::<Headers>());
        assert_eq!(
            message.payload().unwrap(),
            Some(br#"{"n": 9007199254740993}"#.to_vec()),
            "numbers stay as they are"
        );
    }

    #[test]
    fn a_document_with_a_mistake_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"topic": "orders", "key": null, "kind": "", "headers": [], "payload": null, "lane": 1}"#,
            r#"{"topic": "orders", "key": null, "kind": "", "headers": {}, "payload": null}"#,
        ] {
            assert!(Edited::parse(text).is_err(), "{text}");
        }
        let no_base64 = r#"{"topic": "orders", "key": null, "kind": "", "headers": [], "payload": {"b64": "?"}}"#;
        let error = Edited::parse(no_base64).unwrap().into_message().unwrap_err();
        assert!(error.to_string().contains("base64"), "{error}");
    }
}
