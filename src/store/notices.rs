//! The part of the store interface by which relays wake each other.

use std::fmt;

use async_trait::async_trait;

use super::StoreError;

/// A database that passes notices from one relay to the others on the same tables. From [`Store::notices`](super::Store::notices).
///
/// Notices may be lost, doubled or delayed. A relay that receives one polls; a relay that receives none finds the rows at its next
/// poll. Notices are never part of an application's transaction.
///
/// # Cancel safety
/// Every call may be repeated. A dropped [`notify`](Self::notify) may or may not have sent its notices.
#[async_trait]
pub trait NoticeStore: fmt::Debug + Send + Sync {
    /// Sends `notices`, each of at most [`NOTICE_BYTES_MAX`](crate::limits::NOTICE_BYTES_MAX) bytes, to every relay that listens,
    /// including the caller's own.
    ///
    /// # Errors
    /// The database could not be reached: none, some or all notices may have been sent.
    async fn notify(&self, notices: &[String]) -> Result<(), StoreError>;

    /// Listens from now on, over a connection of its own.
    ///
    /// # Errors
    /// No connection can be opened now; the caller tries again later.
    async fn listen(&self) -> Result<Box<dyn NoticeStream>, StoreError>;
}

/// The notices as they arrive. Dropping it closes its connection.
#[async_trait]
pub trait NoticeStream: fmt::Debug + Send {
    /// Waits for the next notice, however long that takes.
    ///
    /// # Errors
    /// The connection is lost; no more notices arrive.
    ///
    /// # Cancel safety
    /// No notice is lost.
    async fn next(&mut self) -> Result<String, StoreError>;
}
