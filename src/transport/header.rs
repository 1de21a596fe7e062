//! The headers that the outbox itself puts on messages, before the user's. By HTTP the message id has another name: the guide has
//! its table.

use std::borrow::Cow;

use crate::message::Envelope;

/// The message id, a UUID as text: the same in every copy, so consumers recognise a duplicate by it.
pub const MESSAGE_ID: &str = "outbox-message-id";

/// What happened; absent where the message has no kind.
pub const KIND: &str = "outbox-kind";

/// Which attempt this copy is, as a decimal number from 2; absent on a first one. An earlier copy may be there as well, and also
/// where the header is absent: a time-out or a crash spends no attempt.
pub const ATTEMPT: &str = "outbox-attempt";

/// Every header that a message is to carry, in order: the outbox's own, then the user's.
///
/// ```
/// use diesel_outbox::transport::header;
/// use diesel_outbox::{Envelope, MessageId};
/// let mut envelope = Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
/// envelope.kind = "order.placed".to_owned();
/// envelope.headers.push("source", "shop");
/// let names: Vec<&str> = header::of(&envelope).map(|(name, _)| name).collect();
/// assert_eq!(names, ["outbox-message-id", "outbox-kind", "source"], "a first attempt");
/// envelope.attempt = 2;
/// let names: Vec<&str> = header::of(&envelope).map(|(name, _)| name).collect();
/// assert_eq!(names, ["outbox-message-id", "outbox-kind", "outbox-attempt", "source"]);
/// ```
pub fn of(envelope: &Envelope) -> impl Iterator<Item = (&str, Cow<'_, [u8]>)> {
    let text = |text: String| Cow::Owned(text.into_bytes());
    let kind = (!envelope.kind.is_empty()).then_some((KIND, Cow::Borrowed(envelope.kind.as_bytes())));
    // Nearly every message is a first attempt, and a header costs a drain a twentieth of its processors.
    let attempt = (envelope.attempt > 1).then(|| (ATTEMPT, text(envelope.attempt.to_string())));
    let own = [Some((MESSAGE_ID, text(envelope.message_id.to_string()))), kind, attempt];
    own.into_iter().flatten().chain(envelope.headers.iter().map(|(name, value)| (name, Cow::Borrowed(value))))
}
