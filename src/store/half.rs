//! The part of the port that half messages need: what became of their transactions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::message::MessageId;

/// A database that also says what became of half messages. From [`Store::halves`](super::Store::halves).
///
/// The transaction of a half message writes a **mark**: a row under the message's id, which is there when it committed and
/// at no other time. Whoever finds none writes a **void** one, so that the transaction can commit no more.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// As for [`Store`](super::Store): every call may be repeated.
#[async_trait]
pub trait HalfStore: fmt::Debug + Send + Sync {
    /// Looks whether the table is there and of this version.
    ///
    /// # Errors
    /// [`StoreError::Schema`]: it is not.
    async fn check_marks(&self) -> Result<(), StoreError>;

    /// Those of `messages` whose marks are committed and not void. One statement that waits for nobody.
    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError>;

    /// What became of a message's transaction; where nothing did, nothing can any more.
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
    /// It did not, and cannot any more.
    RolledBack,
    /// It has written its mark and is neither committed nor rolled back.
    Open,
}
