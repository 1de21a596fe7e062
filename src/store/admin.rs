//! The part of the store interface for admin operations: what is done to single messages while relays run.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::audit::AuditRecord;
use super::dead_letter::{DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, DeadLetterGroup};
use super::live::{LiveCount, LiveMessage};
use super::live_scan::{KeyInLane, KeyNeighbours, LiveConditions, LiveScan, LiveScanEnd};
use super::requeue::{MessageKey, Requeue};
use super::row::{RowKey, RowRef};
use super::{SchemaProblem, StoreError};
use crate::message::{Envelope, MessageId};

/// A database whose messages can be inspected and changed by hand. From [`Store::admin`](super::Store::admin).
///
/// Every write is safe while relays run: it changes only what nobody holds, and reports when somebody does. Its own transaction
/// adds to the audit what `record` says, if there is a record and something has changed.
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// A dropped future may or may not have had its effect.
#[async_trait]
pub trait AdminStore: fmt::Debug + Send + Sync {
    /// Removes a delayed message that no claim has taken yet: one with epoch 0 that is not locked.
    async fn cancel_delayed(
        &self,
        message: MessageId,
        record: Option<&AuditRecord>,
    ) -> Result<CancelOutcome, StoreError>;

    /// Makes a live message due now, under the next epoch, if nobody holds it and nobody would send it within `lease`: it is
    /// delayed with epoch 0, or due later than any lease lasts. Not in a lane: `None`, as if there were no message.
    async fn send_now(
        &self,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<Option<SendNowOutcome>, StoreError>;

    /// Removes a live message that nobody holds: it is due, delayed with epoch 0, or due later than any lease lasts. Not in a lane.
    /// [`AlreadyClaimed`](CancelOutcome::AlreadyClaimed) if somebody may hold it.
    async fn cancel_waiting(
        &self,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<CancelOutcome, StoreError>;

    /// The first `rows_max` rows of a scan that meet the conditions, in the order of the index. Reads every row of the scan if there
    /// are conditions: [`live_scan_end`](Self::live_scan_end) bounds it.
    async fn live_messages(
        &self,
        scan: &LiveScan,
        conditions: &LiveConditions,
        rows_max: usize,
    ) -> Result<Vec<LiveMessage>, StoreError>;

    /// Where a scan of at most `rows_max` rows ends; `None` if it has none. Reads the index only.
    async fn live_scan_end(&self, scan: &LiveScan, rows_max: usize) -> Result<Option<LiveScanEnd>, StoreError>;

    /// One live message. Reads the table in bounded steps by its primary key, if no index has message ids.
    async fn find_live(&self, message: MessageId) -> Result<Option<LiveMessage>, StoreError>;

    /// Looks for a live message: by an index of ids if there is one, else in `rows_max` rows, after the row `after`. Returns it, or after
    /// which row to go on.
    async fn search_live(
        &self,
        message: MessageId,
        after: Option<i64>,
        rows_max: usize,
    ) -> Result<(Option<LiveMessage>, Option<i64>), StoreError>;

    /// The same by its row id, which may have been another message's.
    async fn find_live_row(&self, row: RowKey) -> Result<Option<LiveMessage>, StoreError>;

    /// The first lane of a topic that has rows, from this one on.
    async fn next_lane(&self, topic: &Arc<str>, from: u16) -> Result<Option<u16>, StoreError>;

    /// What stands around a row in its lane: `rows_max` rows before it and as many behind it are read.
    async fn key_neighbours(&self, row: &KeyInLane, rows_max: usize) -> Result<KeyNeighbours, StoreError>;

    /// Counts a topic's live messages by state: `count_max` due ones, as many that are due later, and as many in lanes.
    async fn count_live(&self, topic: &Arc<str>, count_max: usize) -> Result<LiveCount, StoreError>;

    /// Counts a topic's live messages outside of lanes that are due from one moment on and before another, up to `count_max`.
    async fn count_due(
        &self,
        topic: &Arc<str>,
        from: SystemTime,
        before: SystemTime,
        count_max: usize,
    ) -> Result<usize, StoreError>;

    /// The first topics that have live messages, by name.
    async fn live_topics(&self, topics_max: usize) -> Result<Vec<Arc<str>>, StoreError>;

    /// Dead letters after `after` and up to `until`, at most `rows_max`, by topic, time of death and message id.
    async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        until: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    /// The position of the dead letter at which a search would have read `rows` of those that the index finds; `None` if there are
    /// fewer.
    async fn dead_letter_scan_end(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows: usize,
    ) -> Result<Option<DeadLetterCursor>, StoreError>;

    /// Like [`dead_letters`](Self::dead_letters) to the end, but only their positions.
    async fn dead_letter_cursors(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterCursor>, StoreError>;

    /// One dead letter.
    async fn find_dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError>;

    /// The current time of the database's clock.
    async fn now(&self) -> Result<SystemTime, StoreError>;

    /// Counts dead letters by topic and reason word. Reads all of them, without payloads.
    async fn count_dead_letters(&self) -> Result<Vec<DeadLetterCount>, StoreError>;

    /// Counts dead letters by topic, reason word and class of the last noted failure. Reads those that the index finds, at most
    /// `rows_max`, and reports of each group how many were read and how many of them meet the other conditions, too.
    async fn group_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError>;

    /// What determines the lanes of these dead letters. Messages that are not dead letters are left out.
    async fn dead_letter_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError>;

    /// Moves dead letters back to the live messages: due now, `attempts` and `failures` 0, under the next epoch. Returns where
    /// those moved are now, with their row ids if the database tells them. Outside of lanes a row keeps its row id, so a late
    /// acknowledgement still settles it. In a lane it gets a new row id, after every message of its key; several keep the order of
    /// their old ids. The lane is the one given, because the topic's lane count may have changed.
    ///
    /// Rows that another session has locked are skipped.
    async fn redrive(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<RowRef>, StoreError>;

    /// Removes dead letters, whichever copy of their messages they are of; returns how many.
    async fn purge(&self, messages: &[MessageId], record: Option<&AuditRecord>) -> Result<usize, StoreError>;

    /// Removes a dead letter and writes another message in its place, due now or at the end of its lane, in one transaction.
    /// Returns whether the dead letter was there. If it was not, or another session has it locked, nothing is written.
    ///
    /// The envelope's `created_at` and `attempt` are ignored: this is a new row, written now and never tried.
    async fn replace(
        &self,
        letter: MessageId,
        by: &Envelope,
        lane: Option<u16>,
        record: Option<&AuditRecord>,
    ) -> Result<bool, StoreError>;

    /// Pauses a topic: from the next [`poll`](super::Store::poll) on, every relay skips it. Pausing a paused topic changes nothing.
    ///
    /// # Errors
    /// [`SchemaProblem::NotMigrated`](super::SchemaProblem::NotMigrated) if the table of paused topics is missing.
    async fn pause(&self, topic: &Arc<str>, record: Option<&AuditRecord>) -> Result<(), StoreError>;

    /// Ends a pause; returns whether there was one.
    async fn resume(&self, topic: &Arc<str>, record: Option<&AuditRecord>) -> Result<bool, StoreError>;

    /// The paused topics, by name.
    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError>;

    /// What is wrong with each table, in the order of the migrations.
    async fn schema_problems(&self) -> Result<Vec<SchemaProblem>, StoreError>;
}

/// A topic that relays skip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedTopic {
    /// Its name.
    pub topic: Arc<str>,
    /// When it was paused, by the database's clock.
    pub since: SystemTime,
}

/// What became of a message that was to be cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// It is removed, and no relay sends it.
    Cancelled {
        /// Its topic.
        topic: Arc<str>,
    },
    /// A relay holds it, or has held it.
    AlreadyClaimed,
    /// There is no delayed message of that id.
    NotFound,
}

/// What became of a message that was to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendNowOutcome {
    /// It is due.
    Due,
    /// It is due already, a relay holds it, or it will be tried within a lease.
    Soon,
}
