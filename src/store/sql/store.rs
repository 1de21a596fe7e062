use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;

use super::SqlStore;
use super::database::Database;
use super::dialect::{Bind, BindOf};
use super::row_batch::{RowBatch, sorted_by_id};
use super::rows::ConfirmRow;
use super::statements::Sql;
use crate::message::MessageId;
use crate::naming::TableNames;
use crate::retry::bounded;
use crate::store::parked::ParkedStore;
use crate::store::pool::ConnectionPool;
use crate::store::stored::truncated_text;
use crate::store::{
    AdminStore, AuditStore, Claim, ClaimSpec, Confirmed, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking,
    NewDeadLetter, NoticeStore, PollResult, PollSpec, RowKey, RowRef, Store, StoreError, StoreWarning,
    TooFewConnections, TopicBacklog,
};

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> Store for SqlStore<DB, P> {
    fn name(&self) -> &'static str {
        DB::SYNTAX.database
    }

    fn use_tables(&mut self, names: &TableNames) {
        self.sql = Arc::new(Sql::new(DB::SYNTAX, names));
        self.names = names.clone();
        self.has_audit = AtomicBool::new(false);
    }

    fn reserve_connections(&self, needed: usize, most: usize) -> Result<(), TooFewConnections> {
        let bound = DB::CONNECTION_BOUND.unwrap_or(usize::MAX);
        self.executor.connections.reserve(needed.min(bound), most.min(bound))
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        DB::check(self).await
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        let wanted = Wanted::of::<DB>(refs);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<ConfirmRow> = self.read(&self.sql.live.confirm, [wanted.bind::<DB>()]).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.row.key));
        Ok(ours.map(|found| Confirmed { row: found.row.decode(&found.topic), lease_left: found.lease_left }).collect())
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        let wanted = Wanted::of::<DB>(refs);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<RowKey> = self.read(&self.sql.live.remaining, [wanted.bind::<DB>()]).await?;
        Ok(found.into_iter().filter(|key| wanted.contains(key)).collect())
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        DB::claim(self, spec).await
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        let text = match locking {
            Locking::Skip => &self.sql.live.settle,
            Locking::Wait => &self.sql.live.settle_waiting,
        };
        let rows = sorted_by_id(rows, |row| *row);
        self.write(text, RowBatch::keys(rows.into_iter().copied()), []).await
    }

    async fn flush_settled(&self) -> Result<(), StoreError> {
        match DB::FLUSH {
            Some(flush) => {
                self.executor.run(move |conn| Box::pin(async move { conn.batch(&flush.into()).await })).await
            }
            None => Ok(()),
        }
    }

    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        // Dead letters are found and locked by their message ids.
        let mut rows = rows.to_vec();
        rows.sort_by_key(|row| row.message_id);
        let text = &self.sql.live.settle_dead_letters;
        self.execute(text, DB::row_batch(&RowBatch::keys(rows), text.first())).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        let held = sorted_by_id(held, |row| row.key);
        let batch = RowBatch::held(held.into_iter().copied());
        self.write(&self.sql.live.extend, batch, [Bind::Number(DB::duration(lease))]).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        let failed = sorted_by_id(failed, |row| row.held.key);
        let batch = RowBatch::held(failed.iter().map(|row| row.held))
            .numbers(failed.iter().map(|row| DB::duration(bounded(row.wait))))
            .ints(failed.iter().map(|row| i32::from(row.spends_attempt)))
            .texts(failed.iter().map(|row| row.class.to_owned()))
            .texts(failed.iter().map(|row| truncated_text(&row.error)));
        self.write(&self.sql.live.fail, batch, []).await
    }

    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        let dead = sorted_by_id(dead, |row| row.held.key);
        let batch =
            RowBatch::held(dead.iter().map(|row| row.held)).texts(dead.iter().map(|row| truncated_text(&row.reason)));
        self.write(&self.sql.live.dead_letter, batch, []).await
    }

    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError> {
        if spec.topics.is_empty() {
            return Ok(PollResult::default());
        }
        let has_pauses = self.pause_table.exists(self.check_tables(&["paused_topics"])).await?;
        let polled = DB::poll(self, spec, has_pauses).await;
        self.pause_table.record(&polled);
        polled
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        DB::backlog(self, count_max).await
    }

    fn lanes(&self) -> &dyn LaneStore {
        self
    }

    fn halves(&self) -> Option<&dyn HalfStore> {
        Some(self)
    }

    fn history(&self) -> &dyn HistoryStore {
        self
    }

    fn notices(&self) -> Option<&dyn NoticeStore> {
        DB::notices(self)
    }

    fn admin(&self) -> Option<&dyn AdminStore> {
        Some(self)
    }

    fn parked(&self) -> Option<&dyn ParkedStore> {
        Some(self)
    }

    fn audit(&self) -> Option<&dyn AuditStore> {
        Some(self)
    }
}

/// Rows that were handed over. If the row id is known, both ids must match: the row id may belong to another message now, and the
/// message id to a requeued row.
struct Wanted {
    keys: HashSet<RowKey>,
    /// The message ids, and for each the row id if it is known.
    messages: Vec<MessageId>,
    known: HashSet<MessageId>,
}

impl Wanted {
    fn of<DB: Database>(refs: &[RowRef]) -> Self {
        let keys: HashSet<RowKey> = refs.iter().filter_map(RowRef::key).collect();
        if DB::FINDS_BY_ID {
            return Self { keys, messages: Vec::new(), known: HashSet::new() };
        }
        let known = keys.iter().map(|key| key.message_id).collect();
        Self { messages: refs.iter().map(|row| row.message_id).collect(), known, keys }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.messages.is_empty()
    }

    fn bind<DB: Database>(&self) -> BindOf<DB> {
        match DB::FINDS_BY_ID {
            true => DB::rows(&self.keys.iter().map(|key| key.id).collect::<Vec<_>>()),
            false => DB::messages(&self.messages),
        }
    }

    fn contains(&self, key: &RowKey) -> bool {
        self.keys.contains(key) || (!self.messages.is_empty() && !self.known.contains(&key.message_id))
    }
}
