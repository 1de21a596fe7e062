use std::io;

use crate::enqueue::EnqueueError;
use crate::store::StoreError;
use crate::transport::{FailureClass, RocketMqConfigError, TransportError};

/// Why half messages cannot be sent at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HalfMessagesError {
    /// The store does not support marks.
    #[error("this store does not support half messages: use that of PostgreSQL, MySQL or SQLite")]
    NoMarks,
    /// The store could not be reached, or lacks the table.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting that cannot work.
    #[error(transparent)]
    Config(#[from] RocketMqConfigError),
}

impl HalfMessagesError {
    /// The client library's runtime has ended.
    pub(super) fn ended() -> Self {
        Self::Store(StoreError::Unreachable(Box::new(gone())))
    }
}

/// Why a half message was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HalfMessageError {
    /// The message itself is refused.
    #[error(transparent)]
    Refused(#[from] EnqueueError),
    /// The broker did not store it, or did not confirm it.
    #[error("the broker did not accept the half message: {0}")]
    Broker(TransportError),
}

impl HalfMessageError {
    /// Whether it may be sent again, as another message.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Broker(error) => error.is_retriable(),
        }
    }

    /// The client library's runtime has ended.
    pub(super) fn ended() -> Self {
        Self::Broker(TransportError::new(FailureClass::Fatal, gone()))
    }
}

fn gone() -> io::Error {
    io::Error::other("the client library has ended")
}
