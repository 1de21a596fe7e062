//! The part of the store interface for half messages: what became of their transactions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::message::MessageId;

/// A database that also records what became of half messages. From [`Store::halves`](super::Store::halves).
///
/// The transaction of a half message writes a **mark**: a row under the message's id, which exists only if the transaction
/// committed. A reader that finds none writes a **void** mark, so that the transaction can no longer commit.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// As for [`Store`](super::Store): every call may be repeated.
#[async_trait]
pub trait HalfStore: fmt::Debug + Send + Sync {
    /// Checks that the table exists and has this version.
    ///
    /// # Errors
    /// [`StoreError::Schema`]: it does not.
    async fn check_marks(&self) -> Result<(), StoreError>;

    /// Returns those of `messages` whose marks are committed and not void. One statement that waits for no lock.
    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError>;

    /// What became of a message's transaction. If it has written no mark, it can no longer commit.
    async fn decide(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError>;

    /// Removes marks; returns how many.
    async fn remove_marks(&self, messages: &[MessageId]) -> Result<usize, StoreError>;

    /// Removes marks older than `age`, at most `rows_max`; returns how many.
    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError>;
}

/// What became of a half message's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It committed.
    Committed,
    /// It did not, and no longer can.
    RolledBack,
    /// It has written its mark, and has neither committed nor rolled back.
    Open,
}
