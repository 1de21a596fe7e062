//! The part of the store interface for topics that keep sent messages.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{AuditRecord, Locking, MessageKey, Requeue, RowKey, StoreError};
use crate::codec::{self, CodecError};
use crate::message::{HeaderError, Headers, MessageId};
use crate::retention::Keep;
use crate::serialize;

/// A database that keeps sent messages. From [`Store::history`](super::Store::history).
///
/// The transaction that removes a message from the live table adds it to the history, so it is always in one of the two. Each row
/// records the day until which it is kept, so removing old ones needs no topic configuration.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// As for [`Store`](super::Store): every call may be repeated.
#[async_trait]
pub trait HistoryStore: fmt::Debug + Send + Sync {
    /// Checks that the tables exist and have this version.
    ///
    /// # Errors
    /// [`StoreError::Schema`]: they do not.
    async fn check_history(&self) -> Result<(), StoreError>;

    /// Like [`Store::settle`](super::Store::settle), and moves the rows to the history. A row that its consumer has already
    /// reported as processed is processed there at once.
    async fn settle_into_history(&self, rows: &[HistoryRow], locking: Locking) -> Result<Vec<RowKey>, StoreError>;

    /// Like [`Store::settle_dead_letters`](super::Store::settle_dead_letters), and moves the messages to the history.
    async fn settle_dead_letters_into_history(&self, rows: &[HistoryRow]) -> Result<usize, StoreError>;

    /// Creates partitions ahead for rows kept for these numbers of days, if the database needs them.
    async fn ensure_partitions(&self, days: &[u32]) -> Result<(), StoreError>;

    /// Removes expired rows of any topic: at most `rows_max`, or one whole partition.
    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError>;

    /// Removes dead letters of a topic that are older than `age`, at most `rows_max`; returns how many.
    async fn prune_dead_letters(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError>;

    /// Applies reports older than `age` to their messages and removes them, at most `rows_max`; returns how many.
    async fn apply_processed_reports(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError>;

    /// One sent message.
    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError>;

    /// Sent messages of a key after `after`, at most `rows_max`, by time of sending and message id.
    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError>;

    /// Sent messages of a topic that await processing, are not processed and were sent longer ago than `age_min`: after `after`, at
    /// most `rows_max`, by time of sending and message id.
    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError>;

    /// Like [`unprocessed`](Self::unprocessed), but only their positions.
    async fn unprocessed_cursors(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentCursor>, StoreError>;

    /// The id at which a range of message ids is cut off: that of its `rows_max`th sent message of any topic, if it has so many. Reads
    /// the index only.
    async fn sent_scan_end(
        &self,
        after: MessageId,
        until: MessageId,
        rows_max: usize,
    ) -> Result<Option<MessageId>, StoreError>;

    /// The messages of a scan, by message id. Reads every row of its range of ids: [`sent_scan_end`](Self::sent_scan_end) bounds it.
    async fn sent_in_scan(&self, scan: &SentScan) -> Result<Vec<SentMessage>, StoreError>;

    /// Counts the messages of a topic, and those of them that await processing and are not processed. Each count stops at `count_max`.
    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError>;

    /// Records that consumers have processed messages. The report of a message that is not in the history is stored separately.
    /// [`settle_into_history`](Self::settle_into_history) and all reads here include it, until
    /// [`apply_processed_reports`](Self::apply_processed_reports).
    ///
    /// As for [`AdminStore`](super::AdminStore), its own transaction adds to the audit what `record` says.
    async fn report_processed(
        &self,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError>;

    /// What determines the lanes of these sent messages. Messages that are not in the history are left out.
    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError>;

    /// Moves sent messages that are not processed back to the live ones, and returns those moved. Like
    /// [`AdminStore::redrive`](super::AdminStore::redrive), but each gets a new row id, in a lane or not: a late settle of the sent
    /// copy must not remove this one.
    async fn resend(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<MessageId>, StoreError>;
}

/// Adds the migration that creates the table to the error of a missing table.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) fn with_history_migration(error: StoreError) -> StoreError {
    error.with_migration("0000outbox05_history")
}

/// A delivered row to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryRow {
    /// Which one.
    pub key: RowKey,
    /// For how long, and whether it awaits processing.
    pub keep: Keep,
}

/// What a removal of old rows did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed; for a dropped partition, the database's estimate.
    pub rows: usize,
    /// Whether more may be left.
    pub more: bool,
}

/// What a consumer's report did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessedOutcome {
    /// The message is processed from now on.
    Processed,
    /// It was processed already.
    AlreadyProcessed,
    /// It is not in the history. The report waits a week for it: a consumer may be faster than the relay, which settles in batches.
    NotSettledYet,
}

impl ProcessedOutcome {
    /// How many messages these reports have changed.
    pub(crate) fn changed(reported: &[(MessageId, Self)]) -> usize {
        reported.iter().filter(|(_, outcome)| *outcome != Self::AlreadyProcessed).count()
    }
}

/// A sent message, with everything that is known of it.
///
/// Serializable like a [`DeadLetter`](super::DeadLetter), with payload and headers.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SentMessage {
    /// The id that its row had when it was sent. Messages of a lane were sent in the order of these.
    pub id: i64,
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// On an ordered topic, the lane of its key.
    pub lane: Option<u16>,
    /// Its key: what it is about.
    pub key: Option<String>,
    /// Its kind: what happened.
    pub kind: String,
    /// Its headers as stored.
    #[serde(rename = "headers", serialize_with = "serialize::headers")]
    pub headers_json: String,
    /// Its payload; `None` is a tombstone.
    #[serde(serialize_with = "serialize::payload")]
    pub payload: Option<Vec<u8>>,
    /// When it was enqueued, by the database's clock.
    #[serde(serialize_with = "serialize::instant")]
    pub created_at: SystemTime,
    /// When it was to be sent, if it was delayed.
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub deliver_at: Option<SystemTime>,
    /// When its acknowledgement was settled, by the database's clock: usually milliseconds after the broker received it.
    #[serde(serialize_with = "serialize::instant")]
    pub sent_at: SystemTime,
    /// Attempts spent before the successful one.
    pub attempts: u32,
    /// Failures before it was sent.
    pub failures: u32,
    /// On an ordered topic, whether it was sent again, from the dead letters or from the history: its row id is then that of a later row
    /// than its first one. Elsewhere the tables do not say it, and this is false.
    pub is_requeued: bool,
    /// Whether its consumer is to report that it processed it.
    pub awaits_processing: bool,
    /// When its consumer reported it, by the database's clock.
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub processed_at: Option<SystemTime>,
}

impl SentMessage {
    /// Its headers.
    ///
    /// # Errors
    /// The column was changed from outside.
    pub fn headers(&self) -> Result<Headers, HeaderError> {
        Headers::from_json(&self.headers_json)
    }

    /// The event, for a payload that the JSON codec wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// The payload is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode_json(self.payload.as_deref())
    }

    /// The position of this message, after which a next page begins.
    #[doc(hidden)]
    pub fn cursor(&self) -> SentCursor {
        SentCursor { sent_at: self.sent_at, message_id: self.message_id }
    }
}

// Without the payload and header values, as everywhere.
impl fmt::Debug for SentMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentMessage")
            .field("id", &self.id)
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("lane", &self.lane)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &Headers::shown(&self.headers_json))
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .field("created_at", &self.created_at)
            .field("deliver_at", &self.deliver_at)
            .field("sent_at", &self.sent_at)
            .field("attempts", &self.attempts)
            .field("failures", &self.failures)
            .field("is_requeued", &self.is_requeued)
            .field("awaits_processing", &self.awaits_processing)
            .field("processed_at", &self.processed_at)
            .finish()
    }
}

/// A position among sent messages, which are ordered by time of sending and message id.
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

/// Sent messages of a topic in a range of message ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentScan {
    /// The topic.
    pub topic: Arc<str>,
    /// Those enqueued from then on.
    pub from: SystemTime,
    /// Those enqueued before then.
    pub before: SystemTime,
    /// Those after this id.
    pub after: MessageId,
    /// Those up to this id.
    pub until: MessageId,
}

/// How many sent messages a topic has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SentCount {
    /// In the history.
    pub sent: usize,
    /// Of them, those that await processing and are not processed.
    pub unprocessed: usize,
}
