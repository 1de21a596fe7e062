use std::sync::Arc;

use tokio::sync::mpsc;

use super::resolver::EndedHalf;
use crate::outbox::Outbox;
use crate::transport::{HalfProducer, InFlightCounter};

/// The state that the handle and its messages share.
pub(super) struct Inner {
    pub(super) outbox: Outbox,
    /// The table of the marks, with its schema.
    pub(super) table: String,
    pub(super) broker: Arc<HalfProducer>,
    pub(super) ended: mpsc::Sender<EndedHalf>,
    /// Those of `ended` that are not reported to their brokers yet, or whose marks are still there.
    pub(super) open: InFlightCounter,
}
