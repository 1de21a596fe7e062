use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::Bind;
use super::rows::{KeyRow, timestamp};
use crate::clock::millis;
use crate::message::MessageId;
use crate::store::admin_rows::{KeyedRow, MessageIdRow};
use crate::store::history::not_migrated;
use crate::store::history_rows::{MarkingRow, SentCountRow, SentMarkRow, SentRow};
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::{
    HistoryStore, Keep, Kept, Keyed, Locking, Marking, Pruned, Return, RowKey, SentCount, SentMark, SentMessage,
    StoreError,
};

#[async_trait]
impl<P: Sessions<Pg>> HistoryStore for PostgresStore<P> {
    async fn check_history(&self) -> Result<(), StoreError> {
        self.check_tables(vec![self.names.history(), self.names.processed_marks()]).await.map_err(not_migrated)
    }

    async fn settle_kept(&self, rows: &[Kept], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        let text = match locking {
            Locking::Skip => &self.history_texts.settle,
            Locking::Wait => &self.history_texts.settle_waiting,
        };
        let keys = Bind::keys(rows.iter().map(|row| row.key));
        self.write(text, keys.into_iter().chain(keeps(rows)).collect::<Vec<_>>()).await
    }

    async fn settle_dead_kept(&self, rows: &[Kept]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let keys = Bind::keys(rows.iter().map(|row| row.key));
        let binds: Vec<Bind> = keys.into_iter().chain(keeps(rows)).collect();
        let gone: Vec<KeyRow> = self.connections.load(Statement::new(&self.history_texts.settle_dead, binds)).await?;
        Ok(gone.len())
    }

    async fn make_room(&self, days: &[u32]) -> Result<(), StoreError> {
        self.make_partitions(days).await
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        let dropped = self.drop_partition().await;
        if let Ok(Some(rows)) = dropped {
            return Ok(Pruned { rows, more: true });
        }
        // Also where a day cannot be dropped, because somebody reads it or it is not ours.
        let statement = Statement::new(&self.history_texts.prune, [Bind::BigInt(limit(rows_max))]);
        let rows = self.connections.execute(statement).await?;
        dropped?;
        Ok(Pruned { rows, more: rows == rows_max })
    }

    async fn prune_dead(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::BigInt(millis(age)), Bind::BigInt(limit(rows_max))];
        self.connections.execute(Statement::new(&self.history_texts.prune_dead, binds)).await
    }

    async fn fold_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::BigInt(millis(age)), Bind::BigInt(limit(rows_max))];
        self.connections.execute(Statement::new(&self.history_texts.fold_marks, binds)).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        Ok(self.read_sent(&self.history_texts.sent, [Bind::message_id(message)]).await?.into_iter().next())
    }

    async fn sent_of_key(
        &self,
        topic: &Arc<str>,
        key: &Arc<str>,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        let of_key = [Bind::Text(Arc::clone(topic)), Bind::Text(Arc::clone(key))];
        let binds: Vec<Bind> = of_key.into_iter().chain(page(after, rows_max)).collect();
        self.read_sent(&self.history_texts.sent_of_key, binds).await
    }

    async fn unprocessed(
        &self,
        topic: &Arc<str>,
        past: Duration,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMessage>, StoreError> {
        self.read_sent(&self.history_texts.unprocessed, late(topic, past, after, rows_max)).await
    }

    async fn unprocessed_marks(
        &self,
        topic: &Arc<str>,
        past: Duration,
        after: Option<&SentMark>,
        rows_max: usize,
    ) -> Result<Vec<SentMark>, StoreError> {
        let statement = Statement::new(&self.history_texts.unprocessed_marks, late(topic, past, after, rows_max));
        let rows: Vec<SentMarkRow> = self.connections.load(statement).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::BigInt(limit(count_max))];
        let rows: Vec<SentCountRow> = self.connections.load(Statement::new(&self.history_texts.count, binds)).await?;
        Ok(rows.first().map_or(SentCount { sent: 0, unprocessed: 0 }, |row| row.0))
    }

    async fn mark_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let statement = Statement::new(&self.history_texts.mark, [Bind::message_ids(messages)]);
        let rows: Vec<MarkingRow> = self.connections.load(statement).await?;
        Ok(rows.into_iter().map(|row| (row.0, row.1)).collect())
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        let statement = Statement::new(&self.history_texts.sent_keys, [Bind::message_ids(messages)]);
        let rows: Vec<KeyedRow> = self.connections.load(statement).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn send_again(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        let statement = Statement::new(&self.history_texts.send_again, Bind::back(back));
        let moved: Vec<MessageIdRow> = self.connections.load(statement).await?;
        Ok(moved.into_iter().map(|row| row.0).collect())
    }
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    async fn read_sent(&self, text: &Arc<str>, binds: impl Into<Vec<Bind>>) -> Result<Vec<SentMessage>, StoreError> {
        let rows: Vec<SentRow> = self.connections.load(Statement::new(text, binds)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }
}

/// For how long each row is kept, and whether it awaits processing.
fn keeps(rows: &[Kept]) -> [Bind; 2] {
    let days = rows.iter().map(|row| days(row.keep)).collect();
    [Bind::Ints(days), Bind::Ints(rows.iter().map(|row| i32::from(row.keep.awaits_processing)).collect())]
}

/// The same of one claim.
pub(super) fn keep(keep: Keep) -> [Bind; 2] {
    [Bind::BigInt(days(keep).into()), Bind::BigInt(i64::from(keep.awaits_processing))]
}

pub(super) fn days(keep: Keep) -> i32 {
    i32::try_from(keep.days).unwrap_or(i32::MAX)
}

/// A page of those that await processing for longer than `past`.
fn late(topic: &Arc<str>, past: Duration, after: Option<&SentMark>, rows_max: usize) -> Vec<Bind> {
    let late = [Bind::Text(Arc::clone(topic)), Bind::BigInt(millis(past))];
    late.into_iter().chain(page(after, rows_max)).collect()
}

fn page(after: Option<&SentMark>, rows_max: usize) -> [Bind; 3] {
    let after = after.copied().unwrap_or_else(SentMark::first);
    [Bind::Instant(timestamp(after.sent_at)), Bind::message_id(after.message_id), Bind::BigInt(limit(rows_max))]
}
