//! The headers that the outbox itself adds to messages, before the user's. HTTP uses another name for the message id:
//! see the table in the guide.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::message::Envelope;

/// The message id, a UUID as text: the same in every copy, so consumers recognise a duplicate by it.
pub const MESSAGE_ID: &str = "outbox-message-id";

/// The kind of event; absent if the message has no kind.
pub const KIND: &str = "outbox-kind";

/// The attempt that this copy belongs to, as a decimal number from 2; absent on a first attempt. An earlier copy may
/// exist even if the header is absent: a time-out or a crash spends no attempt.
pub const ATTEMPT: &str = "outbox-attempt";

/// When the row was written, by the database's clock, in decimal milliseconds since 1970 UTC: the same in every copy. A
/// broker's own timestamp is the time of sending, which is much later for a delayed or redriven message.
pub const CREATED_AT: &str = "outbox-created-at";

/// When a delayed message was due, in decimal milliseconds since 1970 UTC; absent on others.
pub const DELIVER_AT: &str = "outbox-deliver-at";

/// The fingerprint of the event's shape, as `OutboxMessage::FINGERPRINTS` has it. Absent unless the outbox has
/// [`fingerprints`](crate::OutboxBuilder::fingerprints). It is stored with the row, among the message's own headers.
pub const FINGERPRINT: &str = "outbox-fingerprint";

/// The outbox's own headers that come before the user's, in the order of [`Envelope::all_headers`].
#[cfg(feature = "rocketmq")]
pub(super) const OWN: [&str; 5] = [MESSAGE_ID, KIND, ATTEMPT, CREATED_AT, DELIVER_AT];

impl Envelope {
    /// Every header that a message carries, in order: the outbox's own, then the user's.
    ///
    /// ```
    /// use diesel_outbox::{Envelope, MessageId};
    /// # use std::time::Duration;
    /// let mut envelope = Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
    /// envelope.kind = "order.placed".to_owned();
    /// envelope.headers.push("source", "shop");
    /// let names: Vec<&str> = envelope.all_headers().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["outbox-message-id", "outbox-kind", "outbox-created-at", "source"], "a first attempt");
    /// envelope.attempt = 2;
    /// envelope.deliver_at = Some(envelope.created_at + Duration::from_secs(60));
    /// let own = envelope.all_headers().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&value)));
    /// let own: Vec<String> = own.collect();
    /// assert_eq!(own[2..5], ["outbox-attempt=2", "outbox-created-at=0", "outbox-deliver-at=60000"]);
    /// ```
    pub fn all_headers(&self) -> impl Iterator<Item = (&str, Cow<'_, [u8]>)> {
        let text = |text: String| Cow::Owned(text.into_bytes());
        let kind = (!self.kind.is_empty()).then_some((KIND, Cow::Borrowed(self.kind.as_bytes())));
        // Nearly every message is a first attempt, and a header costs a drain a twentieth of its CPU.
        let attempt = (self.attempt > 1).then(|| (ATTEMPT, text(self.attempt.to_string())));
        let deliver_at = self.deliver_at.map(|at| (DELIVER_AT, text(millis(at).to_string())));
        let own = [
            Some((MESSAGE_ID, text(self.message_id.to_string()))),
            kind,
            attempt,
            Some((CREATED_AT, text(millis(self.created_at).to_string()))),
            deliver_at,
        ];
        own.into_iter().flatten().chain(self.headers.iter().map(|(name, value)| (name, Cow::Borrowed(value))))
    }
}

/// A time in the headers' form; 0 for a time before 1970.
pub(crate) fn millis(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
