use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use uuid::Uuid;

/// The identity of a message: a UUID of version 7, made when it is enqueued and the same in every copy.
///
/// Consumers recognise duplicates by it. Ids of one process sort in the order they were made ([RFC 9562, section
/// 5.7](https://www.rfc-editor.org/rfc/rfc9562#section-5.7)).
///
/// ```
/// use diesel_outbox::MessageId;
/// let (first, second) = (MessageId::new(), MessageId::new());
/// assert!(first < second);
/// assert_eq!(first.to_string().parse::<MessageId>().unwrap(), first);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct MessageId(Uuid);

impl MessageId {
    /// A new id from the current time.
    #[expect(clippy::new_without_default, reason = "a default that differs at every call would surprise")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id as a UUID.
    pub const fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl From<Uuid> for MessageId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl From<MessageId> for Uuid {
    fn from(id: MessageId) -> Self {
        id.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
