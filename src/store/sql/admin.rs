use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::SqlStore;
use super::database::{Database, WriteOutcome};
use super::dialect::{Bind, BindOf, Statement};
use super::row_batch::sorted_unique;
use super::rows::{FromRow, Read};
use super::search::Search;
use super::text::StatementSql;
use crate::lane::lane_column;
use crate::message::{Envelope, MessageId};
use crate::store::pause_table::with_pause_migration;
use crate::store::pool::ConnectionPool;
use crate::store::schema::CHECKED_TABLES;
use crate::store::{
    AdminStore, AuditRecord, CancelOutcome, DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter,
    DeadLetterGroup, KeyInLane, KeyNeighbours, LiveConditions, LiveCount, LiveMessage, LiveScan, LiveScanEnd,
    MessageKey, PausedTopic, Requeue, RowKey, RowRef, SchemaProblem, SendNowOutcome, StoreError,
};

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> AdminStore for SqlStore<DB, P> {
    async fn cancel_delayed(
        &self,
        message: MessageId,
        record: Option<&AuditRecord>,
    ) -> Result<CancelOutcome, StoreError> {
        let binds = vec![DB::id(message.as_uuid())];
        Ok(self.write_one(&self.sql.waiting.cancel, binds, record).await?.into())
    }

    async fn send_now(
        &self,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<Option<SendNowOutcome>, StoreError> {
        Ok(match self.write_waiting(&self.sql.waiting.send_now, message, lease, record).await? {
            WriteOutcome::Written(_) => Some(SendNowOutcome::Due),
            WriteOutcome::Skipped => Some(SendNowOutcome::Soon),
            WriteOutcome::NotFound => None,
        })
    }

    async fn cancel_waiting(
        &self,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<CancelOutcome, StoreError> {
        Ok(self.write_waiting(&self.sql.waiting.cancel_waiting, message, lease, record).await?.into())
    }

    async fn live_messages(
        &self,
        scan: &LiveScan,
        conditions: &LiveConditions,
        rows_max: usize,
    ) -> Result<Vec<LiveMessage>, StoreError> {
        self.read_live_messages(scan, conditions, rows_max).await
    }

    async fn live_scan_end(&self, scan: &LiveScan, rows_max: usize) -> Result<Option<LiveScanEnd>, StoreError> {
        self.find_scan_end(scan, rows_max).await
    }

    async fn find_live(&self, message: MessageId) -> Result<Option<LiveMessage>, StoreError> {
        self.find_live_message(message).await
    }

    async fn search_live(
        &self,
        message: MessageId,
        after: Option<i64>,
        rows_max: usize,
    ) -> Result<(Option<LiveMessage>, Option<i64>), StoreError> {
        match self.search_row_id(message, after, rows_max).await? {
            (Some(id), next) => Ok((self.read_live_row(id, message).await?, next)),
            (None, next) => Ok((None, next)),
        }
    }

    async fn find_live_row(&self, row: RowKey) -> Result<Option<LiveMessage>, StoreError> {
        self.read_live_row(row.id, row.message_id).await
    }

    async fn next_lane(&self, topic: &Arc<str>, from: u16) -> Result<Option<u16>, StoreError> {
        self.find_next_lane(topic, from).await
    }

    async fn key_neighbours(&self, row: &KeyInLane, rows_max: usize) -> Result<KeyNeighbours, StoreError> {
        self.read_key_neighbours(row, rows_max).await
    }

    async fn count_live(&self, topic: &Arc<str>, count_max: usize) -> Result<LiveCount, StoreError> {
        self.read_live_count(topic, count_max).await
    }

    async fn count_due(
        &self,
        topic: &Arc<str>,
        from: SystemTime,
        before: SystemTime,
        count_max: usize,
    ) -> Result<usize, StoreError> {
        self.read_due_count(topic, from, before, count_max).await
    }

    async fn live_topics(&self, topics_max: usize) -> Result<Vec<Arc<str>>, StoreError> {
        self.read_live_topics(topics_max).await
    }

    async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        until: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let searches = Search::of_dead_letters(filter, after, until);
        self.find_in_order(&self.sql.dead_letters.select_in_order, searches, rows_max).await
    }

    async fn dead_letter_scan_end(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows: usize,
    ) -> Result<Option<DeadLetterCursor>, StoreError> {
        let searches = Search::of_dead_letters(&filter.indexed(), after, None);
        let read: Vec<DeadLetterCursor> =
            self.find_in_order(&self.sql.dead_letters.select_cursors, searches, rows).await?;
        Ok(read.last().filter(|_| read.len() == rows).cloned())
    }

    async fn dead_letter_cursors(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterCursor>, StoreError> {
        let searches = Search::of_dead_letters(filter, after, None);
        self.find_in_order(&self.sql.dead_letters.select_cursors, searches, rows_max).await
    }

    async fn find_dead_letter(&self, message: MessageId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.find(&self.sql.dead_letters.select, Search::one(message), 1).await?.into_iter().next())
    }

    async fn now(&self) -> Result<SystemTime, StoreError> {
        Ok(self.read(&self.sql.dead_letters.now, []).await?.into_iter().next().unwrap_or(SystemTime::UNIX_EPOCH))
    }

    async fn count_dead_letters(&self) -> Result<Vec<DeadLetterCount>, StoreError> {
        self.read(&self.sql.dead_letters.count, []).await
    }

    async fn group_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        rows_max: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        // In the order of the index: a sort would read every row of the topic before the first.
        self.ordered(Search::<DB>::groups(filter, &self.sql.dead_letters.groups, rows_max)).await
    }

    async fn dead_letter_keys(&self, messages: &[MessageId]) -> Result<Vec<MessageKey>, StoreError> {
        self.read(&self.sql.dead_letters.keys, [DB::messages(messages)]).await
    }

    async fn redrive(&self, requeues: &[Requeue], record: Option<&AuditRecord>) -> Result<Vec<RowRef>, StoreError> {
        self.requeue(&self.sql.dead_letters.redrive, requeues, record).await
    }

    async fn purge(&self, messages: &[MessageId], record: Option<&AuditRecord>) -> Result<usize, StoreError> {
        if messages.is_empty() {
            return Ok(0);
        }
        let messages = DB::messages(&sorted_unique(messages.iter().copied()));
        self.execute_recorded(&self.sql.dead_letters.purge, messages, record).await
    }

    async fn replace(
        &self,
        letter: MessageId,
        by: &Envelope,
        lane: Option<u16>,
        record: Option<&AuditRecord>,
    ) -> Result<bool, StoreError> {
        let by = vec![
            DB::id(by.message_id.as_uuid()),
            Bind::text(&by.topic),
            Bind::Number(lane_column(lane).into()),
            Bind::OptionalText(by.key.clone()),
            Bind::Text(by.kind.as_str().into()),
            Bind::Text(by.headers.to_json().into()),
            Bind::OptionalBytes(by.payload.clone()),
        ];
        let text = self.sql.dead_letters.replace.clone();
        let changed = |replaced: &bool| usize::from(*replaced);
        self.record(record, changed, move |conn| Box::pin(DB::replace(conn, text, letter, by))).await
    }

    async fn pause(&self, topic: &Arc<str>, record: Option<&AuditRecord>) -> Result<(), StoreError> {
        with_pause_migration(self.check_tables(&["paused_topics"]).await)?;
        self.execute_recorded(&self.sql.pauses.pause, Bind::text(topic), record).await.map(drop)
    }

    async fn resume(&self, topic: &Arc<str>, record: Option<&AuditRecord>) -> Result<bool, StoreError> {
        with_pause_migration(self.check_tables(&["paused_topics"]).await)?;
        Ok(self.execute_recorded(&self.sql.pauses.resume, Bind::text(topic), record).await? > 0)
    }

    async fn paused(&self) -> Result<Vec<PausedTopic>, StoreError> {
        with_pause_migration(self.check_tables(&["paused_topics"]).await)?;
        self.read(&self.sql.pauses.paused, []).await
    }

    async fn schema_problems(&self) -> Result<Vec<SchemaProblem>, StoreError> {
        let mut problems = Vec::new();
        for (table, migration) in CHECKED_TABLES {
            match self.check_tables(&[table]).await.map_err(|error| error.with_migration(migration)) {
                Ok(()) => {}
                Err(StoreError::Schema(problem)) => problems.push(problem),
                Err(error) => return Err(error),
            }
        }
        Ok(problems)
    }
}

impl From<WriteOutcome> for CancelOutcome {
    fn from(outcome: WriteOutcome) -> Self {
        match outcome {
            WriteOutcome::Written(topic) => Self::Cancelled { topic },
            WriteOutcome::Skipped => Self::AlreadyClaimed,
            WriteOutcome::NotFound => Self::NotFound,
        }
    }
}

impl<DB: Database, P: ConnectionPool<DB>> SqlStore<DB, P> {
    /// Writes one message that waits, if nobody holds it.
    async fn write_waiting(
        &self,
        text: &StatementSql,
        message: MessageId,
        lease: Duration,
        record: Option<&AuditRecord>,
    ) -> Result<WriteOutcome, StoreError> {
        let Some(id) = self.row_id(message).await? else { return Ok(WriteOutcome::NotFound) };
        let binds = vec![DB::id(message.as_uuid()), Bind::Number(DB::duration(lease)), Bind::Number(id)];
        self.write_one(text, binds, record).await
    }

    async fn write_one(
        &self,
        text: &StatementSql,
        binds: Vec<BindOf<DB>>,
        record: Option<&AuditRecord>,
    ) -> Result<WriteOutcome, StoreError> {
        let text = text.clone();
        self.record(record, WriteOutcome::changed, |conn| Box::pin(DB::write_one(conn, text, binds))).await
    }

    /// Moves messages back to the live table.
    pub(crate) async fn requeue(
        &self,
        text: &StatementSql,
        requeues: &[Requeue],
        record: Option<&AuditRecord>,
    ) -> Result<Vec<RowRef>, StoreError> {
        if requeues.is_empty() {
            return Ok(Vec::new());
        }
        let (text, requeues) = (text.clone(), Requeue::sorted_unique(requeues));
        self.record(record, Vec::len, |conn| Box::pin(DB::requeue(conn, text, requeues))).await
    }

    /// Runs one statement, and counts the rows it changed.
    pub(crate) async fn execute_recorded(
        &self,
        text: &StatementSql,
        bind: BindOf<DB>,
        record: Option<&AuditRecord>,
    ) -> Result<usize, StoreError> {
        let statement = Statement::new(text, [bind]);
        self.record(record, |rows| *rows, |conn| Box::pin(conn.execute(statement))).await
    }

    /// Runs a search whose text begins with `columns`.
    async fn find<T>(&self, columns: &StatementSql, search: Search<DB>, rows_max: usize) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        let rows: Vec<Read<T>> = self.executor.load(search.statement(columns, rows_max)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// What some searches find, one after the other, each in the order of its index.
    async fn find_in_order<T>(
        &self,
        columns: &StatementSql,
        searches: Vec<Search<DB>>,
        rows_max: usize,
    ) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        let mut found: Vec<T> = Vec::new();
        for search in searches {
            found.extend(self.ordered::<T>(search.statement(columns, rows_max - found.len())).await?);
            if found.len() >= rows_max {
                break;
            }
        }
        Ok(found)
    }
}
