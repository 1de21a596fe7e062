use std::fmt;
use std::time::{Duration, SystemTime};

use diesel_outbox::transport::header;
use diesel_outbox::{Headers, MessageId};

/// A record of a topic, in the terms of the outbox. From a [`RecordSource`](crate::RecordSource).
#[derive(Clone)]
#[non_exhaustive]
pub struct Record {
    /// Its partition: the index in the list of [`TopicState::partitions`](crate::TopicState::partitions).
    pub partition: u32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp: when it was sent, or stored.
    pub at: SystemTime,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// The kind; empty if there is none.
    pub kind: String,
    /// The user's headers, without those of the outbox.
    pub headers: Headers,
    /// The message id; `None` if no outbox has written the record.
    pub message_id: Option<MessageId>,
    /// When the message was enqueued, as its header says.
    pub created_at: Option<SystemTime>,
    /// When a delayed message was due, as its header says.
    pub deliver_at: Option<SystemTime>,
}

impl Record {
    /// A record without key, payload and headers; set the fields it has.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use diesel_outbox_verify::Record;
    /// let mut record = Record::new(0, 17, SystemTime::UNIX_EPOCH);
    /// record.payload = Some(b"{}".to_vec());
    /// ```
    pub fn new(partition: u32, offset: i64, at: SystemTime) -> Self {
        Self {
            partition,
            offset,
            at,
            key: None,
            payload: None,
            kind: String::new(),
            headers: Headers::new(),
            message_id: None,
            created_at: None,
            deliver_at: None,
        }
    }

    /// Takes every header of a record, in order: the outbox's own [come first](diesel_outbox::Envelope::all_headers).
    #[must_use]
    pub fn with_headers<'h>(mut self, headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Self {
        let mut own = OWN_HEADERS.iter().peekable();
        let mut is_own = true;
        for (name, value) in headers {
            // The user's headers may have the same names.
            is_own = is_own && own.any(|known| *known == name);
            if is_own {
                self.take_own(name, &String::from_utf8_lossy(value));
            } else {
                self.headers.push(name, value);
            }
        }
        self
    }

    /// Takes one of the outbox's own headers.
    fn take_own(&mut self, name: &str, value: &str) {
        match name {
            header::MESSAGE_ID => self.message_id = value.parse().ok(),
            header::KIND => value.clone_into(&mut self.kind),
            header::CREATED_AT => self.created_at = instant(value),
            header::DELIVER_AT => self.deliver_at = instant(value),
            _ => {}
        }
    }
}

/// In the order in which a record carries them.
const OWN_HEADERS: [&str; 5] =
    [header::MESSAGE_ID, header::KIND, header::ATTEMPT, header::CREATED_AT, header::DELIVER_AT];

/// A time in the headers' form.
fn instant(millis: &str) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis.parse().ok()?))
}

// The payload is the application's data and must not be logged.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("at", &self.at)
            .field("message_id", &self.message_id)
            .field("kind", &self.kind)
            .field("headers", &self.headers)
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(headers: &[(&str, &str)]) -> Record {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        Record::new(0, 0, SystemTime::UNIX_EPOCH).with_headers(headers)
    }

    #[test]
    fn own_headers_are_the_first_ones() {
        let id = MessageId::new();
        let record = with(&[
            ("outbox-message-id", &id.to_string()),
            ("outbox-kind", "order.placed"),
            ("outbox-attempt", "2"),
            ("outbox-created-at", "1234"),
            ("source", "shop"),
            ("outbox-kind", "the user's"),
        ]);
        assert_eq!((record.message_id, &*record.kind), (Some(id), "order.placed"));
        assert_eq!(record.created_at, Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_234)));
        let users: Vec<_> = record.headers.iter().collect();
        assert_eq!(users, [("source", &b"shop"[..]), ("outbox-kind", b"the user's")]);
    }

    #[test]
    fn a_record_of_somebody_else_has_no_message_id() {
        let record = with(&[("source", "shop"), ("outbox-message-id", "0190b2a0-0000-7000-8000-000000000000")]);
        assert_eq!((record.message_id, record.headers.len()), (None, 2));
        assert_eq!(with(&[("outbox-message-id", "no id")]).message_id, None);
    }
}
