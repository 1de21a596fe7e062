use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::SqlStore;
use super::flows::Flows;
use super::group::each_once;
use crate::message::MessageId;
use crate::store::history::not_migrated;
use crate::store::session::Sessions;
use crate::store::statement::{Bind, BindOf};
use crate::store::{
    HistoryStore, Kept, Keyed, Locking, Marking, Pruned, Return, RowKey, SentCount, SentMark, SentMessage, StoreError,
};

#[async_trait]
impl<DB: Flows, P: Sessions<DB>> HistoryStore for SqlStore<DB, P> {
    async fn check_history(&self) -> Result<(), StoreError> {
        self.check_tables(&["history", "processed_marks"]).await.map_err(not_migrated)
    }

    async fn settle_kept(&self, rows: &[Kept], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let text = match locking {
            Locking::Skip => &self.texts.kept.settle_kept,
            Locking::Wait => &self.texts.kept.settle_kept_waiting,
        };
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.key.id);
        DB::keep(self, text, rows).await
    }

    async fn settle_dead_kept(&self, rows: &[Kept]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.key.message_id);
        Ok(DB::keep(self, &self.texts.kept.settle_dead_kept, rows).await?.len())
    }

    async fn make_room(&self, days: &[u32]) -> Result<(), StoreError> {
        DB::make_room(self, days).await
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        DB::prune(self, rows_max).await
    }

    async fn prune_dead(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = vec![Bind::text(topic), Bind::Number(DB::span(age)), Bind::limit(rows_max)];
        DB::remove(self, &self.texts.retention.prune_dead, binds).await
    }

    async fn fold_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = vec![Bind::Number(DB::span(age)), Bind::limit(rows_max)];
        DB::remove(self, &self.texts.retention.fold_marks, binds).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        Ok(self.read(&self.texts.sent.one, [DB::id(message.as_uuid())]).await?.into_iter().next())
    }

    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        let binds = page::<DB>([Bind::text(topic), Bind::text(key)], after, rows_max);
        self.read(&self.texts.sent.of_key, binds).await
    }

    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        past: Duration,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        let binds = page::<DB>([Bind::text(topic), Bind::Number(DB::span(past))], after, rows_max);
        self.read(&self.texts.sent.unprocessed, binds).await
    }

    async fn unprocessed_marks(
        &self,
        topic: &Arc<str>,
        past: Duration,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMark>, StoreError> {
        let binds = page::<DB>([Bind::text(topic), Bind::Number(DB::span(past))], after, rows_max);
        self.read(&self.texts.sent.unprocessed_marks, binds).await
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        let counted = self.read(&self.texts.sent.count, [Bind::text(topic), Bind::limit(count_max)]).await?;
        Ok(counted.into_iter().next().unwrap_or(SentCount { sent: 0, unprocessed: 0 }))
    }

    async fn mark_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        DB::mark_processed(self, messages).await
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        self.read(&self.texts.sent.keys, [DB::messages(&each_once(messages.iter().copied()))]).await
    }

    async fn send_again(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        DB::move_back(self, &self.texts.sent.again, Return::each_once(back)).await
    }
}

/// A page of those that `which` says.
fn page<DB: Flows>(which: [BindOf<DB>; 2], after: Option<&SentMark>, rows_max: usize) -> Vec<BindOf<DB>> {
    let after = after.copied().unwrap_or_else(SentMark::first);
    let page = [DB::moment(after.sent_at), DB::id(after.message_id.as_uuid()), Bind::limit(rows_max)];
    which.into_iter().chain(page).collect()
}
