//! A dead letter as people look at it, and how they look for it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;

use crate::codec::CodecError;
use crate::message::{HeaderError, Headers, Message, MessageId};

/// A message that was given up, with everything that is known of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// On an ordered topic, the lane of its key.
    pub lane: Option<u16>,
    /// What it is about.
    pub key: Option<String>,
    /// What happened.
    pub kind: String,
    /// Its headers as their column holds them: of a poisoned message they may be no headers at all.
    pub headers_json: String,
    /// Its payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// When it was enqueued, by the database's clock.
    pub created_at: SystemTime,
    /// When it was given up, by the database's clock.
    pub dead_at: SystemTime,
    /// Attempts spent before the last one.
    pub attempts: u32,
    /// Failures before the last one.
    pub failures: u32,
    /// The last of them, oldest first.
    pub errors: Vec<FailureNote>,
    /// Why it was given up: a word, a colon, and the error of the last attempt.
    pub reason: String,
}

/// A failed send, as it was noted on its row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FailureNote {
    /// When, by the database's clock: an instant of RFC 3339 in UTC.
    pub at: String,
    /// Its class.
    pub class: String,
    /// What happened.
    pub error: String,
}

impl DeadLetter {
    /// Its headers.
    ///
    /// # Errors
    /// The column holds no headers: the message was given up because of that.
    pub fn headers(&self) -> Result<Headers, HeaderError> {
        Headers::from_json(&self.headers_json)
    }

    /// The event, of a payload that the JSON codec wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// The payload is no JSON of the type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        serde_json::from_slice(self.payload.as_deref().unwrap_or(b"null")).map_err(CodecError::new)
    }

    /// The same message once more, to be edited: for [`Admin::redrive_edited`](crate::admin::Admin::redrive_edited).
    ///
    /// # Errors
    /// The column holds no headers: put the message together by hand.
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

    /// The word in front of the reason: `refused`, `attempts`, `poisoned`.
    pub fn reason_word(&self) -> &str {
        reason_word(&self.reason)
    }

    /// Behind which letters a next page begins.
    pub fn cursor(&self) -> DeadLetterCursor {
        DeadLetterCursor { topic: Arc::clone(&self.topic), dead_at: self.dead_at, message_id: self.message_id }
    }
}

// Without payload and without the values of headers, as everywhere. Headers that are none may be anything, so only their size is shown.
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

/// What stands before the first colon.
pub(crate) fn reason_word(reason: &str) -> &str {
    reason.split(':').next().unwrap_or_default()
}

/// Which dead letters: those that all of its conditions hold for. All of them, where there is none.
///
/// ```
/// use diesel_outbox::admin::DeadLetterFilter;
/// let filter = DeadLetterFilter::new().topic("orders").reason("refused").key("42");
/// assert_ne!(filter, DeadLetterFilter::new());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    pub(crate) topic: Option<Arc<str>>,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) dead_from: Option<SystemTime>,
    pub(crate) dead_before: Option<SystemTime>,
    /// Said in so many words, and not by saying nothing.
    is_everything: bool,
}

impl DeadLetterFilter {
    /// Every dead letter, to be narrowed. What cannot be undone wants a condition, or [`everything`](Self::everything).
    pub fn new() -> Self {
        Self::default()
    }

    /// Every dead letter, and meant so: [`Admin::purge_all`](crate::admin::Admin::purge_all) takes no other filter without a
    /// condition.
    pub fn everything() -> Self {
        Self { is_everything: true, ..Self::default() }
    }

    /// Whether somebody may have forgotten to say which.
    pub(crate) fn has_no_condition(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no letter can be found by it, whatever there is.
    pub(crate) fn is_impossible(&self) -> bool {
        self.dead_from.zip(self.dead_before).is_some_and(|(from, before)| from >= before)
    }

    /// Of one topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Of one kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Of one key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Whose reason begins with this word, such as `refused`.
    #[must_use]
    pub fn reason(mut self, word: impl Into<Arc<str>>) -> Self {
        self.reason = Some(word.into());
        self
    }

    /// Given up at this moment or later.
    #[must_use]
    pub fn dead_from(mut self, from: SystemTime) -> Self {
        self.dead_from = Some(from);
        self
    }

    /// Given up before this moment.
    #[must_use]
    pub fn dead_before(mut self, before: SystemTime) -> Self {
        self.dead_before = Some(before);
        self
    }
}

/// A place among the dead letters, which are in the order of topic, time of death and message id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterCursor {
    pub(crate) topic: Arc<str>,
    pub(crate) dead_at: SystemTime,
    pub(crate) message_id: MessageId,
}

/// How many dead letters there are of a topic for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetterCount {
    /// The topic.
    pub topic: Arc<str>,
    /// The word in front of their reason.
    pub reason: String,
    /// How many.
    pub count: usize,
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
                message_id,
                topic: "orders".into(),
                lane: None,
                key: None,
                kind: String::new(),
                headers_json,
                payload,
                created_at: now,
                sent_at: now,
                attempts: 0,
                failures: 0,
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
}
