//! The part of the port that topics need which keep what was sent.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use super::{Locking, MessageKey, Requeue, RowKey, StoreError};
use crate::codec::CodecError;
use crate::message::{HeaderError, Headers, MessageId};
use crate::retention::Keep;

/// A database that keeps what was sent. From [`Store::history`](super::Store::history).
///
/// A message moves: in the transaction that takes it out of the live table it enters the history, so that it is in one of the two
/// at any time. There it says itself until which day it is kept, so that whoever removes old ones needs to know no topic.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// As for [`Store`](super::Store): every call may be repeated.
#[async_trait]
pub trait HistoryStore: fmt::Debug + Send + Sync {
    /// Looks whether the tables are there and of this version.
    ///
    /// # Errors
    /// [`StoreError::Schema`]: they are not.
    async fn check_history(&self) -> Result<(), StoreError>;

    /// As [`Store::settle`](super::Store::settle), and moves the rows to the history. One that its consumer has marked before is
    /// processed there at once.
    async fn settle_into_history(&self, rows: &[HistoryRow], locking: Locking) -> Result<Vec<RowKey>, StoreError>;

    /// As [`Store::settle_dead_letters`](super::Store::settle_dead_letters), and moves the messages to the history.
    async fn settle_dead_letters_into_history(&self, rows: &[HistoryRow]) -> Result<usize, StoreError>;

    /// Makes room ahead for what will be kept for these numbers of days, where the database needs that.
    async fn ensure_partitions(&self, days: &[u32]) -> Result<(), StoreError>;

    /// Removes what is kept no longer, of any topic: at most `rows_max` rows, or one part of the table as a whole.
    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError>;

    /// Removes dead letters of a topic that are older than `age`, at most `rows_max`; returns how many.
    async fn prune_dead_letters(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError>;

    /// Writes marks that are older than `age` to their messages and removes them, at most `rows_max`; returns how many.
    async fn apply_processed_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError>;

    /// One sent message.
    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError>;

    /// Sent messages of a key behind `after`, at most `rows_max`, by time of sending and message id.
    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError>;

    /// Sent messages of a topic that await processing, are not marked and were sent longer ago than `age_min`: behind `after`, at most
    /// `rows_max`, by time of sending and message id.
    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError>;

    /// Where they are, without what they carry; otherwise as [`unprocessed`](Self::unprocessed).
    async fn unprocessed_cursors(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentCursor>, StoreError>;

    /// Counts the messages of a topic, and those of them that await processing and are not marked; each up to `count_max`.
    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError>;

    /// Marks messages as processed by their consumer. A mark of what is not in the history is kept beside it for
    /// [`settle_into_history`](Self::settle_into_history) and for everything that reads here, until [`apply_processed_marks`](Self::apply_processed_marks).
    async fn mark_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError>;

    /// What the lanes of these sent messages depend on. What is not in the history is left out.
    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError>;

    /// Moves sent messages that are not marked back to the live ones, and returns those moved: as
    /// [`AdminStore::redrive`](super::AdminStore::redrive) does with dead letters, but each under a new row id, in a lane or
    /// not. A settle of the copy that was sent may still come, and leaves this one alone.
    async fn resend(&self, requeues: &[Requeue]) -> Result<Vec<MessageId>, StoreError>;
}

/// A missing table, with the migration that makes it.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) fn with_history_migration(error: StoreError) -> StoreError {
    error.with_migration("0000outbox05_history")
}

/// A delivered row that is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryRow {
    /// Which one.
    pub key: RowKey,
    /// How.
    pub keep: Keep,
}

/// What a removal of old rows did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed; of a part of the table that went as a whole, as many as the database believes it had.
    pub rows: usize,
    /// Whether more may be left.
    pub more: bool,
}

/// What a consumer's mark did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessedOutcome {
    /// The message is processed from now on.
    Processed,
    /// It was before.
    AlreadyProcessed,
    /// It is not in the history. The mark waits a week for it: the consumer may be faster than the relay, which settles many at once.
    NotSettledYet,
}

/// A message that was sent, with everything that is known of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentMessage {
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// On an ordered topic, the lane of its key.
    pub lane: Option<u16>,
    /// What it is about.
    pub key: Option<String>,
    /// What happened.
    pub kind: String,
    /// Its headers as their column holds them.
    pub headers_json: String,
    /// Its payload; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// When it was enqueued, by the database's clock.
    pub created_at: SystemTime,
    /// When its acknowledgement was settled, by the database's clock: milliseconds after the broker had it, as a rule.
    pub sent_at: SystemTime,
    /// Attempts spent before.
    pub attempts: u32,
    /// Failures before.
    pub failures: u32,
    /// Whether its consumer says when it has processed it.
    pub awaits_processing: bool,
    /// When its consumer said that it has processed it, by the database's clock.
    pub processed_at: Option<SystemTime>,
}

impl SentMessage {
    /// Its headers.
    ///
    /// # Errors
    /// Somebody changed the column.
    pub fn headers(&self) -> Result<Headers, HeaderError> {
        Headers::from_json(&self.headers_json)
    }

    /// The event, of a payload that the JSON codec wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// The payload is no JSON of the type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        serde_json::from_slice(self.payload.as_deref().unwrap_or(b"null")).map_err(CodecError::new)
    }

    /// Behind which message a next page begins.
    pub fn cursor(&self) -> SentCursor {
        SentCursor { sent_at: self.sent_at, message_id: self.message_id }
    }
}

// Without payload and without the values of headers, as everywhere.
impl fmt::Debug for SentMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentMessage")
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("lane", &self.lane)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &Headers::shown(&self.headers_json))
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .field("created_at", &self.created_at)
            .field("sent_at", &self.sent_at)
            .field("attempts", &self.attempts)
            .field("failures", &self.failures)
            .field("awaits_processing", &self.awaits_processing)
            .field("processed_at", &self.processed_at)
            .finish()
    }
}

/// A place among sent messages, which are in the order of time of sending and message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentCursor {
    pub(crate) sent_at: SystemTime,
    pub(crate) message_id: MessageId,
}

impl SentCursor {
    /// Before everything.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn first() -> Self {
        Self { sent_at: SystemTime::UNIX_EPOCH, message_id: uuid::Uuid::nil().into() }
    }
}

/// How many messages of a topic are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentCount {
    /// In the history.
    pub sent: usize,
    /// Of them, those that await processing and are not marked.
    pub unprocessed: usize,
}
