//! When a message is sent.

use std::time::{Duration, SystemTime};

/// When a message is sent.
///
/// In each case the database's clock decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Right after COMMIT. The default.
    #[default]
    Now,
    /// This long after the INSERT, which comes shortly before COMMIT. Counted in whole milliseconds.
    After(Duration),
    /// Not before this time; at once if it is past.
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
