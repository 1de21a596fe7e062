use std::fmt;

use super::{Admin, DeadLetter};
use crate::codec::CodecError;

/// A dead letter's payload in readable form. From [`Admin::payload_text`].
///
/// Its `Display` prints the text, or why there is none.
#[derive(Debug)]
#[non_exhaustive]
pub enum PayloadText<'a> {
    /// The text that its type's codec produced.
    Text(String),
    /// There is no payload: a tombstone.
    Tombstone,
    /// No type was registered for its topic and kind with [`OutboxBuilder::message`](crate::OutboxBuilder::message).
    Unregistered {
        /// The payload.
        bytes: &'a [u8],
    },
    /// The codec of its type cannot read it, or produces no text.
    Unreadable {
        /// The payload.
        bytes: &'a [u8],
        /// The codec's error.
        error: CodecError,
    },
}

impl Admin {
    /// The payload of a dead letter as text, decoded by the codec of the message type registered for its topic and kind.
    ///
    /// ```
    /// # use diesel_outbox::internals::store::{NewDeadLetter, Held, InsertOptions, Store};
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Envelope, MessageId};
    /// use diesel_outbox::{Outbox, OutboxMessage, Topic};
    ///
    /// #[derive(serde::Serialize, OutboxMessage)]
    /// #[outbox(topic = "orders", kind = "order.placed")]
    /// struct OrderPlaced { order_id: i64 }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).message::<OrderPlaced>().build()?;
    /// # let store = MemoryStore::new();
    /// # let mut envelope = Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
    /// # (envelope.kind, envelope.payload) = ("order.placed".to_owned(), Some(br#"{"order_id":42}"#.to_vec()));
    /// # let key = store.insert(envelope, InsertOptions::default());
    /// # store.dead_letter(&[NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused".into() }]).await?;
    /// # let (admin, message_id) = (outbox.admin(store), key.message_id);
    /// let letter = admin.dead_letter(message_id).await?;
    /// assert_eq!(admin.payload_text(&letter).to_string(), r#"{"order_id":42}"#);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn payload_text<'a>(&self, letter: &'a DeadLetter) -> PayloadText<'a> {
        self.decode(&letter.topic, &letter.kind, letter.payload.as_deref())
    }

    /// The same for the payload of any message: of a live or of a sent one.
    pub fn decode<'a>(&self, topic: &str, kind: &str, payload: Option<&'a [u8]>) -> PayloadText<'a> {
        let Some(bytes) = payload else { return PayloadText::Tombstone };
        match self.outbox.payload_text(topic, kind, bytes) {
            None => PayloadText::Unregistered { bytes },
            Some(Ok(text)) => PayloadText::Text(text),
            Some(Err(error)) => PayloadText::Unreadable { bytes, error },
        }
    }
}

impl fmt::Display for PayloadText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Tombstone => f.write_str("no payload (a tombstone)"),
            Self::Unregistered { bytes } => {
                write!(f, "{} bytes of a type that is not registered: {}", bytes.len(), bytes.escape_ascii())
            }
            Self::Unreadable { bytes, error } => write!(f, "{} bytes ({error}): {}", bytes.len(), bytes.escape_ascii()),
        }
    }
}
