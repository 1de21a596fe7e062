//! When a message is to be sent.

use std::time::{Duration, SystemTime};

/// When a message is to be sent, if not at once.
///
/// Whichever it is, the database's clock decides when the time has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Right after COMMIT. The default.
    #[default]
    Now,
    /// So long after the INSERT, which is not long before COMMIT. Counted in whole milliseconds.
    After(Duration),
    /// Not before this moment; at once where it is over.
    At(SystemTime),
}

/// An event that is sent later. Made by [`OutboxMessage::delay`](crate::OutboxMessage::delay) and
/// [`OutboxMessage::deliver_at`](crate::OutboxMessage::deliver_at).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delayed<M> {
    pub(super) event: M,
    pub(super) delivery: Delivery,
}

impl<M> Delayed<M> {
    pub(super) fn new(event: M, delivery: Delivery) -> Self {
        Self { event, delivery }
    }
}
