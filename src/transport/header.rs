//! The headers that the outbox itself puts on every message, before the user's.

/// The message id, a UUID as text: the same in every copy, so consumers recognise a duplicate by it.
pub const MESSAGE_ID: &str = "outbox-message-id";

/// What happened; absent where the message has no kind.
pub const KIND: &str = "outbox-kind";

/// Which attempt this copy is, as a decimal number from 1. Above 1 an earlier copy may be there as well.
pub const ATTEMPT: &str = "outbox-attempt";
