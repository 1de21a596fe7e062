use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use diesel::mysql::Mysql;

use super::MysqlStore;
use super::bind::Bind;
use super::group::Write;
use super::history_texts::HistoryTexts;
use super::texts::{COMMIT, begin_write};
use crate::message::MessageId;
use crate::store::admin_rows::KeyedRow;
use crate::store::history::not_migrated;
use crate::store::history_rows::{MarkingRow, SentCountRow, SentMarkRow, SentRow};
use crate::store::session::Sessions;
use crate::store::statement::{Statement, limit, micros};
use crate::store::{
    HistoryStore, Kept, Keyed, Locking, Marking, Pruned, Return, RowKey, SentCount, SentMark, SentMessage, StoreError,
};

#[async_trait]
impl<P: Sessions<Mysql>> HistoryStore for MysqlStore<P> {
    async fn check_history(&self) -> Result<(), StoreError> {
        let tables = [(self.names.history(), "history"), (self.names.processed_marks(), "processed_marks")];
        self.check_tables(&tables).await.map_err(not_migrated)
    }

    async fn settle_kept(&self, rows: &[Kept], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let lock = match locking {
            Locking::Skip => &self.texts.lock,
            Locking::Wait => &self.texts.lock_waiting,
        };
        let keep = |locked: &[RowKey]| {
            let locked: HashSet<&RowKey> = locked.iter().collect();
            let kept: Vec<Kept> = rows.iter().filter(|row| locked.contains(&row.key)).copied().collect();
            let ids = Bind::ids(kept.iter().map(|row| row.key));
            let mut writes = keeping(&self.history_texts, &self.history_texts.keep, &kept);
            writes.push((&self.texts.delete, vec![ids]));
            writes
        };
        self.write(lock, [Bind::keys(rows.iter().map(|row| row.key))], keep).await
    }

    async fn settle_dead_kept(&self, rows: &[Kept]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let by_key: HashMap<RowKey, &Kept> = rows.iter().map(|row| (row.key, row)).collect();
        let keep = |locked: &[RowKey]| {
            let kept = locked.iter().filter_map(|key| by_key.get(key)).map(|row| **row);
            let kept: Vec<Kept> = kept.collect();
            let mut writes = keeping(&self.history_texts, &self.history_texts.keep_dead, &kept);
            writes.push((&self.texts.settle_dead, vec![Bind::letters(locked.iter().copied())]));
            writes
        };
        let group = [Bind::letters(rows.iter().map(|row| row.key))];
        Ok(self.write(&self.history_texts.lock_dead, group, keep).await?.len())
    }

    async fn make_room(&self, _days: &[u32]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn prune(&self, rows_max: usize) -> Result<Pruned, StoreError> {
        let texts = &self.history_texts;
        let group = [Bind::BigInt(limit(rows_max))];
        let fallen = self.write(&texts.lock_fallen, group, |locked| vec![(&texts.delete, vec![of(locked)])]).await?;
        Ok(Pruned { rows: fallen.len(), more: fallen.len() == rows_max })
    }

    async fn prune_dead(&self, topic: &Arc<str>, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let group = [Bind::Text(Arc::clone(topic)), Bind::BigInt(micros(age)), Bind::BigInt(limit(rows_max))];
        let delete = |locked: &[RowKey]| vec![(&self.texts.remove_letters, vec![of(locked)])];
        Ok(self.write(&self.history_texts.lock_old_dead, group, delete).await?.len())
    }

    async fn fold_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        let texts = &self.history_texts;
        let group = [Bind::BigInt(micros(age)), Bind::BigInt(limit(rows_max))];
        let fold =
            |locked: &[RowKey]| vec![(&texts.fold_marks, vec![of(locked)]), (&texts.delete_marks, vec![of(locked)])];
        Ok(self.write(&texts.lock_old_marks, group, fold).await?.len())
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
        let one = || [Bind::Text(Arc::clone(topic)), Bind::BigInt(limit(count_max))];
        let binds: Vec<Bind> = one().into_iter().chain(one()).collect();
        let rows: Vec<SentCountRow> = self.connections.load(Statement::new(&self.history_texts.count, binds)).await?;
        Ok(rows.first().map_or(SentCount { sent: 0, unprocessed: 0 }, |row| row.0))
    }

    async fn mark_processed(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        self.connections.within(self.mark(messages)).await
    }

    async fn sent_keys(&self, messages: &[MessageId]) -> Result<Vec<Keyed>, StoreError> {
        let statement = Statement::new(&self.history_texts.sent_keys, [ascending(messages.iter().copied())]);
        let rows: Vec<KeyedRow> = self.connections.load(statement).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn send_again(&self, back: &[Return]) -> Result<Vec<MessageId>, StoreError> {
        if back.is_empty() {
            return Ok(Vec::new());
        }
        let texts = &self.history_texts;
        let move_back = |locked: &[RowKey]| {
            vec![(&texts.send_again, vec![Bind::back(back, locked)]), (&texts.delete, vec![of(locked)])]
        };
        let group = [ascending(back.iter().map(|back| back.message_id))];
        let moved = self.write(&texts.lock_unprocessed, group, move_back).await?;
        Ok(moved.into_iter().map(|key| key.message_id).collect())
    }
}

impl<P: Sessions<Mysql>> MysqlStore<P> {
    async fn read_sent(&self, text: &Arc<str>, binds: impl Into<Vec<Bind>>) -> Result<Vec<SentMessage>, StoreError> {
        let rows: Vec<SentRow> = self.connections.load(Statement::new(text, binds)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    async fn mark(&self, messages: &[MessageId]) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        let texts = &self.history_texts;
        let mut lease = self.connections.lease().await?;
        lease.begin(begin_write()).await?;
        let lock = Statement::new(&texts.lock_sent, [ascending(messages.iter().copied())]);
        let there: Vec<MarkingRow> = lease.load(lock).await?;
        let mut markings: HashMap<MessageId, Marking> = there.into_iter().map(|row| (row.0, row.1)).collect();
        for message in messages {
            markings.entry(*message).or_insert(Marking::Ahead);
        }
        for (wanted, text) in [(Marking::Marked, &texts.mark), (Marking::Ahead, &texts.mark_ahead)] {
            let group = markings.iter().filter(|(_, marking)| **marking == wanted).map(|(message, _)| *message);
            let group: Vec<MessageId> = group.collect();
            if !group.is_empty() {
                lease.execute(Statement::new(text, [ascending(group.into_iter())])).await?;
            }
        }
        lease.commit_by(COMMIT.into()).await?;
        lease.give_back();
        Ok(markings.into_iter().collect())
    }
}

/// The writes that put rows into the history, from where they still are.
pub(super) fn keeping<'a>(texts: &'a HistoryTexts, keep: &'a Arc<str>, rows: &[Kept]) -> Vec<Write<'a>> {
    let mut rows = rows.to_vec();
    rows.sort_unstable_by_key(|row| row.key.id);
    let mut writes = vec![(keep, vec![Bind::kept(&rows)])];
    let mut awaiting = rows.iter().filter(|row| row.keep.awaits_processing).map(|row| row.key.message_id).peekable();
    if awaiting.peek().is_some() {
        writes.push((&texts.take_marks, vec![ascending(awaiting)]));
    }
    writes
}

/// In one order, for rows are locked in it.
fn ascending(messages: impl Iterator<Item = MessageId>) -> Bind {
    let mut messages: Vec<MessageId> = messages.collect();
    messages.sort_unstable();
    messages.dedup();
    Bind::message_ids(messages.into_iter())
}

fn of(locked: &[RowKey]) -> Bind {
    ascending(locked.iter().map(|key| key.message_id))
}

/// A page of those that await processing for longer than `past`.
fn late(topic: &Arc<str>, past: Duration, after: Option<&SentMark>, rows_max: usize) -> Vec<Bind> {
    let late = [Bind::Text(Arc::clone(topic)), Bind::BigInt(micros(past))];
    late.into_iter().chain(page(after, rows_max)).collect()
}

fn page(after: Option<&SentMark>, rows_max: usize) -> [Bind; 4] {
    let after = after.copied().unwrap_or_else(SentMark::first);
    let sent_at = micros(after.sent_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    [Bind::BigInt(sent_at), Bind::BigInt(sent_at), Bind::message_id(after.message_id), Bind::BigInt(limit(rows_max))]
}
