use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::faults::Call;
use crate::message::MessageId;
use crate::store::{
    HistoryStore, Kept, Keyed, Locking, Marking, Pruned, Return, RowKey, SentCount, SentMark, SentMessage, StoreError,
};

#[async_trait]
impl HistoryStore for MemoryStore {
    async fn check_history(&self) -> Result<(), StoreError> {
        self.call(Call::Check, |_| ()).await
    }

    async fn settle_kept(&self, rows: &[Kept], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        match locking {
            Locking::Skip => self.call(Call::Settle, |state| state.settle_kept(rows).removed).await,
            Locking::Wait => self.settle_waiting(rows, |row| row.key, |state, rows| state.settle_kept(rows)).await,
        }
    }

    async fn settle_dead_kept(&self, rows: &[Kept]) -> Result<usize, StoreError> {
        self.call(Call::SettleDead, |state| state.settle_dead_kept(rows)).await
    }

    async fn make_room(&self, _days: &[u32]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        self.call(Call::Prune, |state| state.prune(rows_max)).await
    }

    async fn prune_dead(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        self.call(Call::Prune, |state| state.prune_dead(topic, age, rows_max)).await
    }

    async fn fold_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        self.call(Call::Prune, |state| state.fold_marks(age, rows_max)).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.sent(message)).await
    }

    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.sent_of_key(topic, key, after, rows_max)).await
    }

    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        past: Duration,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.call(Call::History, |state| state.unprocessed(topic, past, after, rows_max)).await
    }

    async fn unprocessed_marks(
        &self,
        topic: &Arc<str>,
        past: Duration,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMark>, StoreError> {
        Ok(self.unprocessed(topic, past, after, rows_max).await?.iter().map(SentMessage::mark).collect())
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        self.call(Call::History, |state| state.count_sent(topic, count_max)).await
    }

    async fn mark_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        self.call(Call::History, |state| state.mark_processed(messages)).await
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        self.call(Call::History, |state| state.sent_keys(messages)).await
    }

    async fn send_again(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        self.call(Call::History, |state| state.send_again(back)).await
    }
}
