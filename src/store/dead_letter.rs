//! A dead letter with all its columns, and how to find it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::{self, CodecError};
use crate::message::{HeaderError, Headers, Message, MessageId};
use crate::serialize;
use crate::store::{DeadLetterReason, is_in_no_column};

/// A dead-lettered message, with everything that is known of it.
///
/// Serializable, for pages and endpoints of the application. The payload and the headers are included, so show it only to people who
/// may read the message. A payload is text if it is UTF-8, else `{"b64": ..}`. Instants are RFC 3339.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// The lane it was in, on an ordered topic.
    pub lane: Option<u16>,
    /// Its key: what it is about.
    pub key: Option<String>,
    /// Its kind: what happened.
    pub kind: String,
    /// Its headers as stored. Those of a poisoned message may not be valid headers.
    #[serde(rename = "headers", serialize_with = "serialize::headers")]
    pub headers_json: String,
    /// Its payload; `None` is a tombstone.
    #[serde(serialize_with = "serialize::payload")]
    pub payload: Option<Vec<u8>>,
    /// When it was enqueued, by the database's clock.
    #[serde(serialize_with = "serialize::instant")]
    pub created_at: SystemTime,
    /// When it was dead-lettered, by the database's clock.
    #[serde(serialize_with = "serialize::instant")]
    pub dead_at: SystemTime,
    /// Attempts spent before the last one.
    pub attempts: u32,
    /// Failures before the last one.
    pub failures: u32,
    /// The last failures, oldest first.
    pub errors: Vec<FailedAttempt>,
    /// Why it was dead-lettered: the [`DeadLetterReason`], a colon, and the error of the last attempt.
    pub reason: String,
}

/// A failed send, as recorded on its row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct FailedAttempt {
    /// When, by the database's clock. `None` if the row does not say, as in [`MemoryStore`](super::MemoryStore).
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub at: Option<SystemTime>,
    /// The class of the failure: the name of a [`FailureClass`](crate::transport::FailureClass). A text, because a relay of another
    /// version may have written one that this version does not know.
    pub class: String,
    /// What happened.
    pub error: String,
}

impl DeadLetter {
    /// Its headers.
    ///
    /// # Errors
    /// The column holds no valid headers: the message was dead-lettered because of that.
    pub fn headers(&self) -> Result<Headers, HeaderError> {
        Headers::from_json(&self.headers_json)
    }

    /// The event, for a payload that the JSON codec wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// The payload is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode_json(self.payload.as_deref())
    }

    /// The same message again, to be edited: for [`Admin::redrive_edited`](crate::admin::Admin::redrive_edited).
    ///
    /// # Errors
    /// The column holds no valid headers: build the message by hand.
    pub fn to_message(&self) -> Result<Message, HeaderError> {
        let message = Message::to(&*self.topic).kind(&*self.kind).replace_headers(self.headers()?);
        let message = match &self.key {
            Some(key) => message.key(key),
            None => message,
        };
        Ok(match &self.payload {
            Some(payload) => message.payload_bytes(payload.clone()),
            None => message,
        })
    }

    /// Why it was dead-lettered, without the error.
    pub fn typed_reason(&self) -> DeadLetterReason {
        DeadLetterReason::of(&self.reason)
    }

    /// The position of this dead letter, after which a next page begins.
    #[doc(hidden)]
    pub fn cursor(&self) -> DeadLetterCursor {
        DeadLetterCursor { topic: Arc::clone(&self.topic), dead_at: self.dead_at, message_id: self.message_id }
    }
}

// Without the payload and header values, as everywhere. Invalid headers may contain anything, so only their size is shown.
impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetter")
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("lane", &self.lane)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &Headers::shown(&self.headers_json))
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .field("created_at", &self.created_at)
            .field("dead_at", &self.dead_at)
            .field("attempts", &self.attempts)
            .field("failures", &self.failures)
            .field("errors", &self.errors)
            .field("reason", &self.reason)
            .finish()
    }
}

/// Selects dead letters: those that meet all of its conditions. Without a condition, all of them.
///
/// ```
/// use diesel_outbox::admin::{DeadLetterFilter, DeadLetterReason};
/// let filter = DeadLetterFilter::new().topic("orders").reason(DeadLetterReason::Refused).key("42");
/// assert_ne!(filter, DeadLetterFilter::new());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DeadLetterFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<DeadLetterReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize::instant_or_none")]
    pub(crate) dead_from: Option<SystemTime>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize::instant_or_none")]
    pub(crate) dead_before: Option<SystemTime>,
    /// Whether every dead letter was asked for explicitly.
    #[serde(skip)]
    pub(crate) is_everything: bool,
}

impl DeadLetterFilter {
    /// Every dead letter, to be narrowed. What cannot be undone requires a condition, or [`everything`](Self::everything).
    pub fn new() -> Self {
        Self::default()
    }

    /// Every dead letter, explicitly. Without a condition, [`Admin::purge_all`](crate::admin::Admin::purge_all) accepts only this
    /// filter.
    pub fn everything() -> Self {
        Self { is_everything: true, ..Self::default() }
    }

    /// Whether somebody may have forgotten the condition.
    pub(crate) fn has_no_condition(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the filter can match no dead letter at all.
    pub(crate) fn is_impossible(&self) -> bool {
        let Self { topic, kind, key, reason, class, dead_from, dead_before, is_everything: _ } = self;
        let reason = reason.as_ref().map(DeadLetterReason::as_str);
        let mut texts = [topic, kind, key, class].into_iter().filter_map(Option::as_deref).chain(reason);
        let is_no_period = dead_from.zip(*dead_before).is_some_and(|(from, before)| from >= before);
        is_no_period || texts.any(is_in_no_column)
    }

    /// The conditions that an index serves: a topic, and of a topic a period. The others are checked row by row.
    pub(crate) fn indexed(&self) -> Self {
        match &self.topic {
            Some(topic) => Self {
                topic: Some(Arc::clone(topic)),
                dead_from: self.dead_from,
                dead_before: self.dead_before,
                ..Self::default()
            },
            None => Self::default(),
        }
    }

    /// Whether the index serves all conditions.
    pub(crate) fn is_indexed(&self) -> bool {
        Self { is_everything: false, ..self.clone() } == self.indexed()
    }

    /// Only of this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Only of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only of this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Only those that were dead-lettered for this reason.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<DeadLetterReason>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Only those whose last noted failure has this class ([`FailedAttempt::class`]), such as `record`.
    #[must_use]
    pub fn class(mut self, class: impl Into<Arc<str>>) -> Self {
        self.class = Some(class.into());
        self
    }

    /// Dead-lettered at this moment or later.
    #[must_use]
    pub fn dead_from(mut self, from: SystemTime) -> Self {
        self.dead_from = Some(from);
        self
    }

    /// Dead-lettered before this moment.
    #[must_use]
    pub fn dead_before(mut self, before: SystemTime) -> Self {
        self.dead_before = Some(before);
        self
    }
}

/// A position among the dead letters, which are ordered by topic, time of death and message id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterCursor {
    pub(crate) topic: Arc<str>,
    pub(crate) dead_at: SystemTime,
    pub(crate) message_id: MessageId,
}

/// How many dead letters a topic has for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadLetterCount {
    /// The topic.
    pub topic: Arc<str>,
    /// Their reason.
    pub reason: DeadLetterReason,
    /// The class of their last noted failure, if they are counted by it and have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// How many.
    pub count: usize,
}

/// Dead letters of a topic with one reason word and one class, among those that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterGroup {
    /// Those that match.
    pub matching: DeadLetterCount,
    /// How many were read, matching or not.
    pub read: usize,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::SentMessage;

    const SECRETS: [&str; 3] = ["swordfish", "115, 119", "c3dvcmRmaXNo"];

    #[test]
    fn payloads_and_values_of_headers_are_in_no_debug_and_in_no_error() {
        for headers_json in [r#"[["token","swordfish"]]"#, r#"["swordfish"]"#, r#"[["token",{"b64":"c3dvcmRmaXNo"}]]"#]
        {
            let (message_id, now) = (Uuid::nil().into(), SystemTime::UNIX_EPOCH);
            let (headers_json, payload) = (headers_json.to_owned(), Some(b"swordfish".to_vec()));
            let letter = DeadLetter {
                message_id,
                topic: "orders".into(),
                lane: None,
                key: None,
                kind: String::new(),
                headers_json: headers_json.clone(),
                payload: payload.clone(),
                created_at: now,
                dead_at: now,
                attempts: 0,
                failures: 0,
                errors: Vec::new(),
                reason: String::new(),
            };
            let sent = SentMessage {
                id: 1,
                message_id,
                topic: "orders".into(),
                lane: None,
                key: None,
                kind: String::new(),
                headers_json,
                payload,
                created_at: now,
                deliver_at: None,
                sent_at: now,
                attempts: 0,
                failures: 0,
                is_requeued: false,
                awaits_processing: false,
                processed_at: None,
            };
            let message = Message::to("orders").header("token", "swordfish").payload_bytes(b"swordfish".to_vec());
            let error = letter.headers().err().map(|error| format!("{error} {error:?}"));
            for shown in [format!("{letter:?}"), format!("{sent:?}"), format!("{message:?}"), error.unwrap_or_default()]
            {
                assert!(SECRETS.iter().all(|secret| !shown.contains(secret)), "{shown}");
            }
        }
    }

    #[test]
    fn a_letter_and_a_sent_message_are_json() {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_709_251_199_250);
        let (message_id, time) = (Uuid::nil().into(), "2024-02-29T23:59:59.250000Z");
        let mut letter = DeadLetter {
            message_id,
            topic: "orders".into(),
            lane: Some(3),
            key: Some("42".to_owned()),
            kind: "order.placed".to_owned(),
            headers_json: r#"[["source","shop"]]"#.to_owned(),
            payload: Some(br#"{"id":42}"#.to_vec()),
            created_at: at,
            dead_at: at,
            attempts: 1,
            failures: 2,
            errors: vec![FailedAttempt { at: Some(at), class: "record".to_owned(), error: "no".to_owned() }],
            reason: "refused: no".to_owned(),
        };
        let expected = serde_json::json!({
            "message_id": Uuid::nil(), "topic": "orders", "lane": 3, "key": "42", "kind": "order.placed",
            "headers": [["source", "shop"]], "payload": "{\"id\":42}", "created_at": time, "dead_at": time,
            "attempts": 1, "failures": 2, "errors": [{"at": time, "class": "record", "error": "no"}], "reason": "refused: no",
        });
        assert_eq!(serde_json::to_value(&letter).unwrap(), expected);
        (letter.payload, letter.headers_json) = (Some(vec![0xff]), "no headers".to_owned());
        let json = serde_json::to_value(&letter).unwrap();
        assert_eq!((&json["payload"], &json["headers"]), (&serde_json::json!({"b64": "/w=="}), &"no headers".into()));
        letter.payload = None;
        assert!(serde_json::to_value(&letter).unwrap()["payload"].is_null());
        let sent = SentMessage {
            id: 7,
            message_id,
            topic: letter.topic,
            lane: None,
            key: None,
            kind: String::new(),
            headers_json: "[]".to_owned(),
            payload: None,
            created_at: at,
            deliver_at: Some(at),
            sent_at: at,
            attempts: 0,
            failures: 0,
            is_requeued: false,
            awaits_processing: true,
            processed_at: Some(at),
        };
        let json = serde_json::to_value(&sent).unwrap();
        assert_eq!((&json["sent_at"], &json["processed_at"]), (&time.into(), &time.into()));
        assert_eq!((&json["id"], &json["deliver_at"]), (&7.into(), &time.into()));
        assert!(serde_json::to_value(SentMessage { processed_at: None, ..sent }).unwrap()["processed_at"].is_null());
    }
}
