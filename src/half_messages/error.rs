use std::io;

use crate::enqueue::EnqueueError;
use crate::store::StoreError;
use crate::transport::{FailureClass, RocketMqConfigError, TransportError};

/// Why half messages cannot be sent at all, or why one was not sent. Starting them returns the first three, sending one the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HalfMessageError {
    /// At start: the store does not support marks.
    #[error("this store does not support half messages: use that of PostgreSQL, MySQL or SQLite")]
    NoMarks,
    /// At start: the store could not be reached, or lacks the table.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// At start: a setting that cannot work.
    #[error(transparent)]
    Config(#[from] RocketMqConfigError),
    /// The message itself is refused.
    #[error(transparent)]
    Refused(#[from] EnqueueError),
    /// The broker did not store the message, or did not confirm it.
    #[error("the broker did not accept the half message: {0}")]
    Broker(TransportError),
}

impl HalfMessageError {
    /// Whether the same call may succeed later. A message is then another one, with another id.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::NoMarks | Self::Config(_) | Self::Refused(_) => false,
            Self::Store(error) => error.is_retriable(),
            Self::Broker(error) => error.is_retriable(),
        }
    }

    /// The client library's runtime has ended before it was set up.
    pub(super) fn ended_at_start() -> Self {
        Self::Config(RocketMqConfigError::Client { problem: ENDED.to_owned() })
    }

    /// The client library's runtime has ended.
    pub(super) fn ended() -> Self {
        Self::Broker(TransportError::new(FailureClass::Fatal, io::Error::other(ENDED)))
    }
}

const ENDED: &str = "the client library has ended";
