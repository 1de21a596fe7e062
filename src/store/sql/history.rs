use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::SqlStore;
use super::database::Database;
use super::dialect::{Bind, BindOf, Statement};
use super::row_batch::sorted_unique;
use crate::message::MessageId;
use crate::store::history::with_history_migration;
use crate::store::pool::ConnectionPool;
use crate::store::{
    AuditRecord, HistoryRow, HistoryStore, Locking, MessageKey, ProcessedOutcome, Pruned, Requeue, RowKey, SentCount,
    SentCursor, SentMessage, SentScan, StoreError,
};

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> HistoryStore for SqlStore<DB, P> {
    async fn check_history(&self) -> Result<(), StoreError> {
        self.check_tables(&["history", "processed_marks"]).await.map_err(with_history_migration)
    }

    async fn settle_into_history(&self, rows: &[HistoryRow], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let text = match locking {
            Locking::Skip => &self.sql.history.settle_into_history,
            Locking::Wait => &self.sql.history.settle_into_history_waiting,
        };
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.key.id);
        DB::settle_into_history(self, text, rows).await
    }

    async fn settle_dead_letters_into_history(&self, rows: &[HistoryRow]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.key.message_id);
        Ok(DB::settle_into_history(self, &self.sql.history.settle_dead_letters_into_history, rows).await?.len())
    }

    async fn ensure_partitions(&self, days: &[u32]) -> Result<(), StoreError> {
        DB::ensure_partitions(self, days).await
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        DB::prune(self, rows_max).await
    }

    async fn prune_dead_letters(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = vec![Bind::text(topic), Bind::Number(DB::duration(age)), Bind::limit(rows_max)];
        DB::remove(self, &self.sql.retention.prune_dead_letters, binds).await
    }

    async fn apply_processed_reports(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = vec![Bind::Number(DB::duration(age)), Bind::limit(rows_max)];
        DB::remove(self, &self.sql.retention.apply_processed_reports, binds).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        Ok(self.read(&self.sql.sent.one, [DB::id(message.as_uuid())]).await?.into_iter().next())
    }

    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        let binds = page::<DB>([Bind::text(topic), Bind::text(key)], after, rows_max);
        self.read(&self.sql.sent.of_key, binds).await
    }

    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        let binds = page::<DB>([Bind::text(topic), Bind::Number(DB::duration(age_min))], after, rows_max);
        self.read(&self.sql.sent.unprocessed, binds).await
    }

    async fn unprocessed_cursors(
        &self,
        topic: &Arc<str>,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Result<Vec<SentCursor>, StoreError> {
        let binds = page::<DB>([Bind::text(topic), Bind::Number(DB::duration(age_min))], after, rows_max);
        self.read(&self.sql.sent.unprocessed_cursors, binds).await
    }

    async fn sent_scan_end(
        &self,
        after: MessageId,
        until: MessageId,
        rows_max: usize,
    ) -> Result<Option<MessageId>, StoreError> {
        let skipped = Bind::limit(rows_max.saturating_sub(1));
        let binds = [DB::id(after.as_uuid()), DB::id(until.as_uuid()), skipped];
        Ok(self.ordered(Statement::new(&self.sql.sent.scan_end, binds)).await?.into_iter().next())
    }

    async fn sent_in_scan(&self, scan: &SentScan) -> Result<Vec<SentMessage>, StoreError> {
        let SentScan { topic, from, before, after, until } = scan;
        let [after, until] = [after, until].map(|id| DB::id(id.as_uuid()));
        let binds = [after, until, Bind::text(topic), DB::instant_bind(*from), DB::instant_bind(*before)];
        self.ordered(Statement::new(&self.sql.sent.in_scan, binds)).await
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        let counted = self.read(&self.sql.sent.count, [Bind::text(topic), Bind::limit(count_max)]).await?;
        Ok(counted.into_iter().next().unwrap_or(SentCount { sent: 0, unprocessed: 0 }))
    }

    async fn report_processed(
        &self,
        messages: &[MessageId],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let (text, messages) = (self.sql.sent.report_processed.clone(), messages.to_vec());
        let changed = |reported: &Vec<(MessageId, ProcessedOutcome)>| ProcessedOutcome::changed(reported);
        self.record(record, changed, |conn| Box::pin(DB::report_processed(conn, text, messages))).await
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError> {
        self.read(&self.sql.sent.keys, [DB::messages(&sorted_unique(messages.iter().copied()))]).await
    }

    async fn resend(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<MessageId>, StoreError> {
        let moved = self.requeue(&self.sql.sent.resend, requeues, record).await?;
        Ok(moved.into_iter().map(|row| row.message_id).collect())
    }
}

/// The binds of a page of the messages that `which` selects.
fn page<DB: Database>(which: [BindOf<DB>; 2], after: Option<&SentCursor>, rows_max: usize) -> Vec<BindOf<DB>> {
    let after = after.copied().unwrap_or_else(SentCursor::first);
    let page = [DB::instant_bind(after.sent_at), DB::id(after.message_id.as_uuid()), Bind::limit(rows_max)];
    which.into_iter().chain(page).collect()
}
