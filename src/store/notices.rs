//! The part of the port by which relays wake each other.

use std::fmt;

use async_trait::async_trait;

use super::StoreError;

/// A database that passes notices from one relay to the others of the same tables. From [`Store::notices`](super::Store::notices).
///
/// Notices may be lost, doubled or delayed: whoever hears one looks for itself, and whoever hears none looks at its poll.
/// They never stand in a transaction of the application.
///
/// # Cancel safety
/// Every call may be repeated: a dropped [`notify`](Self::notify) may have passed its notices on or not.
#[async_trait]
pub trait NoticeStore: fmt::Debug + Send + Sync {
    /// Passes on `notices`, each of [`NOTICE_BYTES_MAX`](crate::limits::NOTICE_BYTES_MAX) bytes at most, to every relay that
    /// listens, the caller's own included.
    ///
    /// # Errors
    /// The database could not be asked: some may be passed on, or all.
    async fn notify(&self, notices: &[String]) -> Result<(), StoreError>;

    /// Listens from now on, over a connection of its own.
    ///
    /// # Errors
    /// There is no such connection now; the caller tries again later.
    async fn listen(&self) -> Result<Box<dyn NoticeStream>, StoreError>;
}

/// Notices as they come. Dropping it closes its connection.
#[async_trait]
pub trait NoticeStream: fmt::Debug + Send {
    /// Waits for the next one, however long that takes.
    ///
    /// # Errors
    /// The connection is lost; nothing comes any more.
    ///
    /// # Cancel safety
    /// No notice is lost by it.
    async fn next(&mut self) -> Result<String, StoreError>;
}
