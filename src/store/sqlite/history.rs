use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::bind::Bind;
use super::call::BEGIN;
use super::keeping::keeping;
use super::rows::{FallenRow, KeyRow};
use crate::clock::millis;
use crate::limits::PRUNE_BYTES_MAX;
use crate::message::MessageId;
use crate::store::admin_rows::{KeyedRow, MessageIdRow};
use crate::store::history::not_migrated;
use crate::store::history_rows::{MarkingRow, SentCountRow, SentMarkRow, SentRow};
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit};
use crate::store::{
    HistoryStore, Kept, Keyed, Locking, Marking, Pruned, Return, RowKey, SentCount, SentMark, SentMessage, StoreError,
};

#[async_trait]
impl<P: Sessions<Sqlite>> HistoryStore for SqliteStore<P> {
    async fn check_history(&self) -> Result<(), StoreError> {
        let tables = [("history", self.names.history()), ("processed_marks", self.names.processed_marks())];
        self.check_tables(&tables).await.map_err(not_migrated)
    }

    async fn settle_kept(&self, rows: &[Kept], _locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let keep = keeping(&self.history_texts, &self.history_texts.keep, rows);
        let keys: Vec<RowKey> = rows.iter().map(|row| row.key).collect();
        let settle = Statement::new(&self.texts.settle, Bind::keys(&keys));
        let settled: Vec<KeyRow> = self.caller().write_and_load(keep, settle).await?;
        Ok(settled.into_iter().map(|row| row.0).collect())
    }

    async fn settle_dead_kept(&self, rows: &[Kept]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let mut writes = keeping(&self.history_texts, &self.history_texts.keep_dead, rows);
        let keys: Vec<RowKey> = rows.iter().map(|row| row.key).collect();
        writes.push(Statement::new(&self.texts.settle_dead, Bind::keys(&keys)));
        self.run_all(writes).await
    }

    async fn make_room(&self, _days: &[u32]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        let bounds = [Bind::BigInt(limit(rows_max)), Bind::BigInt(limit(PRUNE_BYTES_MAX))];
        let fallen: Vec<FallenRow> = self.caller().load(Statement::new(&self.history_texts.fallen, bounds)).await?;
        let Some(FallenRow { found, fitting }) = fallen.into_iter().next().filter(|fallen| fallen.found > 0) else {
            return Ok(Pruned::default());
        };
        let statement = Statement::new(&self.history_texts.prune, [Bind::BigInt(limit(fitting))]);
        let rows = self.caller().execute(statement).await?;
        Ok(Pruned { rows, more: found == rows_max || fitting < found })
    }

    async fn prune_dead(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::BigInt(millis(age)), Bind::BigInt(limit(rows_max))];
        self.caller().execute(Statement::new(&self.history_texts.prune_dead, binds)).await
    }

    async fn fold_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let old = || [Bind::BigInt(millis(age)), Bind::BigInt(limit(rows_max))];
        let texts = &self.history_texts;
        self.run_all(vec![Statement::new(&texts.fold_marks, old()), Statement::new(&texts.delete_marks, old())]).await
    }

    async fn sent(&self, message: MessageId) -> Result<Option<SentMessage>, StoreError> {
        Ok(self
            .read_sent(&self.history_texts.sent, [Bind::message_ids([message].into_iter())])
            .await?
            .into_iter()
            .next())
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
        let rows: Vec<SentMarkRow> = self.caller().load(statement).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn count_sent(&self, topic: &Arc<str>, count_max: usize) -> Result<SentCount, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::BigInt(limit(count_max))];
        let rows: Vec<SentCountRow> = self.caller().load(Statement::new(&self.history_texts.count, binds)).await?;
        Ok(rows.first().map_or(SentCount { sent: 0, unprocessed: 0 }, |row| row.0))
    }

    async fn mark_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let texts = &self.history_texts;
        let statement = |text| Statement::new(text, [Bind::message_ids(messages.iter().copied())]);
        let (look, mark, ahead) =
            (statement(&texts.look_for_marks), statement(&texts.mark), statement(&texts.mark_ahead));
        let caller = self.caller();
        let found = caller.run(|lease| {
            Box::pin(async move {
                lease.begin(BEGIN.into()).await?;
                let found: Vec<MarkingRow> = lease.load(look).await?;
                lease.execute(mark).await?;
                lease.execute(ahead).await?;
                lease.commit().await?;
                Ok(found)
            })
        });
        Ok(found.await?.into_iter().map(|row| (row.0, row.1)).collect())
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        let group = [Bind::message_ids(messages.iter().copied())];
        let rows: Vec<KeyedRow> = self.caller().load(Statement::new(&self.history_texts.sent_keys, group)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn send_again(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        let texts = &self.history_texts;
        let back = Return::each_once(back);
        let moves = vec![Statement::new(&texts.send_again, Bind::back(&back))];
        let remove = [Bind::message_ids(back.iter().map(|back| back.message_id))];
        let remove = Statement::new(&texts.remove_sent, remove);
        let moved: Vec<MessageIdRow> = self.caller().write_and_load(moves, remove).await?;
        Ok(moved.into_iter().map(|row| row.0).collect())
    }
}

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    async fn read_sent(&self, text: &Arc<str>, binds: impl Into<Vec<Bind>>) -> Result<Vec<SentMessage>, StoreError> {
        let rows: Vec<SentRow> = self.caller().load(Statement::new(text, binds)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Runs writes in one transaction; counts what the last one changed.
    async fn run_all(&self, writes: Vec<Statement<Sqlite>>) -> Result<usize, StoreError> {
        let caller = self.caller();
        let written = caller.run(|lease| {
            Box::pin(async move {
                let mut written = 0;
                lease.begin(BEGIN.into()).await?;
                for write in writes {
                    written = lease.execute(write).await?;
                }
                lease.commit().await?;
                Ok(written)
            })
        });
        written.await
    }
}

/// A page of those that await processing for longer than `past`.
fn late(topic: &Arc<str>, past: Duration, after: Option<&SentMark>, rows_max: usize) -> Vec<Bind> {
    let late = [Bind::Text(Arc::clone(topic)), Bind::BigInt(millis(past))];
    late.into_iter().chain(page(after, rows_max)).collect()
}

fn page(after: Option<&SentMark>, rows_max: usize) -> [Bind; 3] {
    let after = after.copied().unwrap_or_else(SentMark::first);
    let sent_at = millis(after.sent_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    [Bind::BigInt(sent_at), Bind::message_ids([after.message_id].into_iter()), Bind::BigInt(limit(rows_max))]
}
