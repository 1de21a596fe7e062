//! The calls for topics that keep sent messages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Measured;
use super::timer::Statement;
use crate::message::MessageId;
use crate::store::{
    AuditRecord, HistoryRow, HistoryStore, Locking, MessageKey, ProcessedOutcome, Pruned, Requeue, RowKey, SentCount,
    SentCursor, SentMessage, SentScan, StoreError,
};

#[async_trait]
impl HistoryStore for Measured {
    /// Not timed: it fails wherever there is no history.
    async fn check_history(&self) -> Result<(), StoreError> {
        self.store.history().check_history().await
    }

    async fn settle_into_history(&self, rows: &[HistoryRow], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::SettleIntoHistory, self.store.history().settle_into_history(rows, locking)).await
    }

    async fn settle_dead_letters_into_history(&self, rows: &[HistoryRow]) -> Result<usize, StoreError> {
        let call = self.store.history().settle_dead_letters_into_history(rows);
        self.timer.time(Statement::SettleDeadLettersIntoHistory, call).await
    }

    async fn ensure_partitions(&self, days: &[u32]) -> Result<(), StoreError> {
        self.timer.time(Statement::EnsurePartitions, self.store.history().ensure_partitions(days)).await
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        self.timer.time(Statement::Prune, self.store.history().prune(rows_max)).await
    }

    async fn prune_dead_letters(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let call = self.store.history().prune_dead_letters(topic, age, rows_max);
        self.timer.time(Statement::PruneDeadLetters, call).await
    }

    async fn apply_processed_reports(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let call = self.store.history().apply_processed_reports(age, rows_max);
        self.timer.time(Statement::ApplyProcessedReports, call).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        self.store.history().sent(message).await
    }

    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.store.history().sent_of_key(topic, key, after, rows_max).await
    }

    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.store.history().unprocessed(topic, age_min, after, rows_max).await
    }

    async fn unprocessed_cursors(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentCursor>, StoreError> {
        self.store.history().unprocessed_cursors(topic, age_min, after, rows_max).await
    }

    async fn sent_scan_end(
        &self,
        after: MessageId,
        until: MessageId,
        rows_max: usize,
    ) -> Result<Option<MessageId>, StoreError> {
        self.store.history().sent_scan_end(after, until, rows_max).await
    }

    async fn sent_in_scan(&self, scan: &SentScan) -> Result<Vec<SentMessage>, StoreError> {
        self.store.history().sent_in_scan(scan).await
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        self.store.history().count_sent(topic, count_max).await
    }

    async fn report_processed(
        &self,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError> {
        self.store.history().report_processed(messages, record).await
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError> {
        self.store.history().sent_keys(messages).await
    }

    async fn resend(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<MessageId>, StoreError> {
        self.store.history().resend(requeues, record).await
    }
}
