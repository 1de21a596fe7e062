//! The part of the port that people need: what is done to single messages beside the running relays.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::StoreError;
use super::dead_letter::{DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter};
use super::requeue::{MessageKey, Requeue};
use crate::message::{Envelope, MessageId};

/// A database whose messages can be looked at and changed by hand. From [`Store::admin`](super::Store::admin).
///
/// Every write is safe beside running relays: it takes what nobody holds, and says where somebody does.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// A dropped future may or may not have had its effect.
#[async_trait]
pub trait AdminStore: fmt::Debug + Send + Sync {
    /// Removes a delayed message that no claim has taken yet: of epoch 0, and not locked.
    async fn cancel(&self, message: MessageId) -> Result<CancelOutcome, StoreError>;

    /// Makes a live message due now, under the next epoch, that nobody holds and nobody would send for longer than
    /// `lease`: delayed and of epoch 0, or due later than any lease lasts. Not in a lane.
    async fn send_now(&self, message: MessageId, lease: Duration) -> Result<SendNowOutcome, StoreError>;

    /// Dead letters behind `after`, at most `rows_max`, by topic, time of death and message id.
    async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    /// As [`dead_letters`](Self::dead_letters), without what they carry.
    async fn dead_letter_cursors(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterCursor>, StoreError>;

    /// One dead letter.
    async fn find_dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError>;

    /// The database's clock.
    async fn now(&self) -> Result<SystemTime, StoreError>;

    /// Counts dead letters by topic and by the word in front of their reason. Reads all of them, without payloads.
    async fn count_dead_letters(&self) -> Result<Vec<DeadLetterCount>, StoreError>;

    /// What the lanes of these dead letters depend on. What is not dead is left out.
    async fn dead_letter_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError>;

    /// Moves dead letters back to the live messages, and returns those moved: due now, `attempts` and `failures` 0, under the
    /// next epoch. Each under its old id, by which a late acknowledgement settles it; in a lane under a new one, so behind
    /// every message of its key, and several in the order of their old ids. The lane is the one said, whichever it was in: its
    /// topic may have another number of them by now, or none.
    ///
    /// What another session has locked is passed over.
    async fn redrive(&self, requeues: &[Requeue]) -> Result<Vec<MessageId>, StoreError>;

    /// Removes dead letters, whichever copy of their messages they are of; returns how many.
    async fn purge(&self, messages: &[MessageId]) -> Result<usize, StoreError>;

    /// Removes a dead letter and writes another message in its place, due now or at the tail of its lane, in one transaction.
    /// Says whether the letter was there; where it was not, or another session has it locked, nothing is written.
    ///
    /// The envelope's `created_at` and `attempt` are not looked at: it is a new row, written now and tried never.
    async fn replace(&self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> Result<bool, StoreError>;

    /// Pauses a topic: from the next [`poll`](super::Store::poll) on every relay leaves it alone. One that is paused stays as
    /// it is.
    ///
    /// # Errors
    /// [`SchemaProblem::NotMigrated`](super::SchemaProblem::NotMigrated) where there is no place to keep it.
    async fn pause(&self, topic: &Arc<str>) -> Result<(), StoreError>;

    /// Ends a pause; says whether there was one.
    async fn resume(&self, topic: &Arc<str>) -> Result<bool, StoreError>;

    /// The paused topics, by name.
    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError>;
}

/// A topic that relays leave alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PausedTopic {
    /// Its name.
    pub topic: Arc<str>,
    /// When it was paused, by the database's clock.
    pub since: SystemTime,
}

/// What became of a message that was to be cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It is gone, and no relay sends it any more.
    Cancelled {
        /// Its topic.
        topic: Arc<str>,
    },
    /// A relay has it in hand, or had.
    AlreadyClaimed,
    /// No delayed message of that id is there.
    NotFound,
}

/// What became of a message that was to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendNowOutcome {
    /// It is due.
    Due,
    /// It is due already, a relay has it in hand, or it will be tried within a lease.
    Soon,
    /// No live message of that id is there, outside of lanes.
    NotFound,
}
