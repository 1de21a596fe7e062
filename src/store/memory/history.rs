use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::faults::Call;
use super::state::State;
use crate::message::MessageId;
use crate::store::{
    AuditRecord, HistoryRow, HistoryStore, Locking, MessageKey, ProcessedOutcome, Pruned, Requeue, RowKey, SentCount,
    SentCursor, SentMessage, SentScan, StoreError,
};

#[async_trait]
impl HistoryStore for MemoryStore {
    async fn check_history(&self) -> Result<(), StoreError> {
        self.call(Call::Check, |_| ()).await
    }

    async fn settle_into_history(&self, rows: &[HistoryRow], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        match locking {
            Locking::Skip => self.call(Call::Settle, |state| state.settle_into_history(rows).removed).await,
            Locking::Wait => {
                self.settle_waiting(rows, |row| row.key, |state, rows| state.settle_into_history(rows)).await
            }
        }
    }

    async fn settle_dead_letters_into_history(&self, rows: &[HistoryRow]) -> Result<usize, StoreError> {
        self.call(Call::SettleDeadLetters, |state| state.settle_dead_letters_into_history(rows)).await
    }

    async fn ensure_partitions(&self, _days: &[u32]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        self.call(Call::Prune, |state| state.prune(rows_max)).await
    }

    async fn prune_dead_letters(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        self.call(Call::Prune, |state| state.prune_dead_letters(topic, age, rows_max)).await
    }

    async fn apply_processed_reports(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        self.call(Call::Prune, |state| state.apply_processed_reports(age, rows_max)).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.sent(message)).await
    }

    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.sent_of_key(topic, key, after, rows_max)).await
    }

    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.unprocessed(topic, age_min, after, rows_max)).await
    }

    async fn unprocessed_cursors(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentCursor>, StoreError> {
        Ok(self.unprocessed(topic, age_min, after, rows_max).await?.iter().map(SentMessage::cursor).collect())
    }

    async fn sent_scan_end(
        &self,
        after: MessageId,
        until: MessageId,
        rows_max: usize,
    ) -> Result<Option<MessageId>, StoreError> {
        self.call(Call::History, |state| state.sent_scan_end(after, until, rows_max)).await
    }

    async fn sent_in_scan(&self, scan: &SentScan) -> Result<Vec<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.sent_in_scan(scan)).await
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        self.call(Call::History, |state| state.count_sent(topic, count_max)).await
    }

    async fn report_processed(
        &self,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError> {
        let changed = |reported: &Vec<(MessageId, ProcessedOutcome)>| ProcessedOutcome::changed(reported);
        let report = |state: &mut State| state.report_processed(messages);
        self.call(Call::History, |state| state.recorded(record, changed, report)).await
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError> {
        self.call(Call::History, |state| state.sent_keys(messages)).await
    }

    async fn resend(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<MessageId>, StoreError> {
        self.call(Call::History, |state| state.recorded(record, Vec::len, |state| state.resend(requeues))).await
    }
}
