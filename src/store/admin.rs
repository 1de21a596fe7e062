//! The part of the port that people need: what is done to single messages beside the running relays.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::StoreError;
use crate::message::MessageId;

/// A database whose messages can be looked at and changed by hand. From [`Store::admin`](super::Store::admin).
///
/// Every write is safe beside running relays: it takes what nobody holds, and says where somebody does.
///
/// # Cancel safety
/// A dropped future may or may not have had its effect.
#[async_trait]
pub trait AdminStore: fmt::Debug + Send + Sync {
    /// Removes a delayed message that no claim has taken yet: of epoch 0, and not locked.
    async fn cancel(&self, message: MessageId) -> Result<Cancellation, StoreError>;
}

/// What became of a message that was to be cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancellation {
    /// It is gone, and no relay sends it any more.
    Cancelled {
        /// Its topic.
        topic: Arc<str>,
    },
    /// A relay has it in hand, or had.
    Taken,
    /// No delayed message of that id is there.
    NotThere,
}
