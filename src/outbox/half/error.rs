use std::io;

use crate::enqueue::EnqueueError;
use crate::store::StoreError;
use crate::transport::{FailureClass, RocketMqConfigError, TransportError};

/// Why half messages cannot be sent at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HalfMessagesError {
    /// The store keeps no marks.
    #[error("this store keeps no marks of half messages: use that of PostgreSQL, MySQL or SQLite")]
    NoMarks,
    /// The store could not be asked, or has no table for them.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting that cannot work.
    #[error(transparent)]
    Config(#[from] RocketMqConfigError),
}

impl HalfMessagesError {
    /// The library's runtime is gone.
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
    /// The broker did not take it, or did not say so.
    #[error("the half message was not taken: {0}")]
    Broker(#[source] TransportError),
}

impl HalfMessageError {
    /// Whether it may be sent again, as another message.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Broker(error) => error.is_retriable(),
        }
    }

    /// The library's runtime is gone.
    pub(super) fn ended() -> Self {
        Self::Broker(TransportError::new(FailureClass::Fatal, gone()))
    }
}

fn gone() -> io::Error {
    io::Error::other("the client library has ended")
}
