use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use diesel::mysql::Mysql;

use super::bind::poll_binds;
use super::rows::{BacklogRow, FenceRow, OneRow, PollRow};
use super::transaction::{COMMIT, begin_write, write_locked};
use super::{MysqlStore, lock_wait};
use crate::lane::NodeId;
use crate::limits::MYSQL_MARK_WAIT;
use crate::message::MessageId;
use crate::store::pool::{ConnectionPool, PoolConnection, Session};
use crate::store::sql::binds::Binds as _;
use crate::store::sql::database::{Database, VoidMarkSql, WriteOutcome, append_binds};
use crate::store::sql::dialect::{Bind, BindOf, Statement};
use crate::store::sql::row_batch::{Column, RowBatch, sorted_unique};
use crate::store::sql::rows::Read;
use crate::store::sql::scans::{SCAN_COUNTS, scan_batches};
use crate::store::sql::statements::Sql;
use crate::store::sql::text::StatementSql;
use crate::store::{
    Claim, ClaimSpec, HistoryRow, PollFrom, PollResult, PollSpec, PollTopic, ProcessedOutcome, Pruned, Requeue, RowKey,
    RowRef, StoreError, StoreWarning, TopicBacklog,
};

type Binds = Vec<BindOf<Mysql>>;

// The first text of a writing statement finds and locks the rows that the other texts write.
impl Database for Mysql {
    const FINDS_BY_ID: bool = false;

    const COMMIT: &'static str = COMMIT;

    fn begin<P: ConnectionPool<Self>>(_store: &MysqlStore<P>) -> Arc<str> {
        begin_write()
    }

    fn void_mark_sql<P: ConnectionPool<Self>>(store: &MysqlStore<P>) -> VoidMarkSql {
        let usual = lock_wait(store.executor.connections.deadline());
        let wait = MYSQL_MARK_WAIT.as_secs();
        let begin = format!("SET SESSION innodb_lock_wait_timeout = {wait}; {}", begin_write()).into();
        let commit = format!("{COMMIT}, innodb_lock_wait_timeout = {usual}").into();
        VoidMarkSql { reads_first: false, around: None, begin, commit }
    }

    async fn check<P: ConnectionPool<Self>>(store: &MysqlStore<P>) -> Result<Vec<StoreWarning>, StoreError> {
        store.executor.connections.within(store.check_database()).await
    }

    async fn check_tables<P: ConnectionPool<Self>>(store: &MysqlStore<P>, tables: &[&str]) -> Result<(), StoreError> {
        store.check_named(tables).await
    }

    async fn claim<P: ConnectionPool<Self>>(store: &MysqlStore<P>, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        store.executor.connections.within(store.open_claim(spec)).await
    }

    async fn poll<P: ConnectionPool<Self>>(
        store: &MysqlStore<P>,
        spec: &PollSpec,
        has_pauses: bool,
    ) -> Result<PollResult, StoreError> {
        let text = store.sql.due.poll_sql(has_pauses);
        let mut topics = Vec::with_capacity(spec.topics.len());
        for (_, batch, size) in scan_batches(&spec.topics) {
            let nothing = PollTopic { topic: "".into(), from: PollFrom::Beginning };
            let filled_up = batch.iter().chain(iter::repeat(&nothing)).take(SCAN_COUNTS[size]);
            let binds: Binds = filled_up.flat_map(|at| poll_binds(at, spec, has_pauses)).collect();
            let found: Vec<PollRow> = store.executor.poll(Statement::step(text, size, binds)).await?;
            let found = found.into_iter().filter_map(|row| Some((batch.get(row.place)?, row)));
            topics.extend(found.map(|(at, row)| row.of(at, spec.watermark_slack_duration)));
        }
        Ok(PollResult::of(topics))
    }

    /// One statement per topic, each of which returns the next topic. On MariaDB a derived table cannot see the row beside it,
    /// which counting all topics in one statement would need. Grouping by topic reads the whole index.
    async fn backlog<P: ConnectionPool<Self>>(
        store: &MysqlStore<P>,
        count_max: usize,
    ) -> Result<Vec<TopicBacklog>, StoreError> {
        let sql = Arc::clone(&store.sql);
        let counted = store.executor.run(move |conn| {
            Box::pin(async move {
                let mut topics = Vec::new();
                // Sorts before every topic: no topic is empty.
                let mut next = Some(Arc::from(""));
                while let Some(topic) = next.take() {
                    let binds = [Bind::text(&topic), Bind::limit(count_max)];
                    let read: Vec<BacklogRow> = conn.load(Statement::new(&sql.due.backlog, binds)).await?;
                    for row in read {
                        next = row.next_topic();
                        topics.extend(row.of(&topic));
                    }
                }
                Ok(topics)
            })
        });
        counted.await
    }

    /// Checked first without a lock: InnoDB locks a row before it knows whether the rest of the condition holds, and keeps it
    /// locked until COMMIT. A locked row in flight would be skipped when its failure is recorded, and that is not repeated.
    async fn write_one<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        binds: Binds,
    ) -> Result<WriteOutcome, StoreError> {
        let [find, lock, check] = [0, 1, 3].map(|at| Statement::step(&text, at, binds.clone()));
        let mut locked: Vec<OneRow> = conn.load(find).await?;
        if !locked.is_empty() {
            locked = conn.load(lock).await?;
        }
        if let Some(row) = locked.into_iter().next() {
            conn.execute(Statement::step(&text, 2, [Bind::Number(row.id)])).await?;
            return Ok(WriteOutcome::Written(row.topic));
        }
        let there: Vec<OneRow> = conn.load(check).await?;
        Ok(if there.is_empty() { WriteOutcome::NotFound } else { WriteOutcome::Skipped })
    }

    async fn replace<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        letter: MessageId,
        by: Binds,
    ) -> Result<bool, StoreError> {
        let binds: Binds = [Self::messages(&[letter])].into_iter().chain(by).collect();
        let lock = Statement::new(&text, binds.clone());
        let writes = |_: &[RowKey]| Statement::steps_from(&text, 1, |_| binds.clone());
        Ok(!write_locked(conn, lock, writes).await?.is_empty())
    }

    async fn write<P: ConnectionPool<Self>>(
        store: &MysqlStore<P>,
        text: &StatementSql,
        mut batch: RowBatch,
        more_binds: Binds,
    ) -> Result<Vec<RowKey>, StoreError> {
        let text = text.clone();
        let lock = Statement::new(&text, Self::row_batch(&batch, text.first()));
        let writes = move |locked: &[RowKey]| {
            batch.retain(locked);
            Statement::steps_from(&text, 1, |step| append_binds(Self::row_batch(&batch, step), &more_binds))
        };
        store.lock_and_write(lock, writes).await
    }

    async fn write_owned<P: ConnectionPool<Self>>(
        store: &MysqlStore<P>,
        text: &StatementSql,
        (topic, node): (&Arc<str>, NodeId),
        mut batch: RowBatch,
    ) -> Result<Vec<RowKey>, StoreError> {
        let (text, topic, node) = (text.clone(), Bind::text(topic), Self::id(node.as_uuid()));
        let written = store.transaction(move |conn| {
            Box::pin(async move {
                let owned: Vec<FenceRow> = conn.load(Statement::new(&text, [topic.clone(), node])).await?;
                let owned = Self::columns(&[
                    Column::Numbers(owned.iter().map(|lane| lane.lane).collect()),
                    Column::Numbers(owned.iter().map(|lane| lane.fence).collect()),
                ]);
                let named = Self::row_batch(&batch, &text.steps()[1]).into_iter().chain(owned).chain([topic]);
                let lock = Statement::step(&text, 1, named.collect::<Binds>());
                let writes = |locked: &[RowKey]| {
                    batch.retain(locked);
                    Statement::steps_from(&text, 2, |step| Self::row_batch(&batch, step))
                };
                write_locked(conn, lock, writes).await
            })
        });
        written.await
    }

    async fn settle_into_history<P: ConnectionPool<Self>>(
        store: &MysqlStore<P>,
        text: &StatementSql,
        rows: Vec<HistoryRow>,
    ) -> Result<Vec<RowKey>, StoreError> {
        let (sql, text) = (Arc::clone(&store.sql), text.clone());
        let lock = Statement::new(&text, Self::row_batch(&RowBatch::history(&rows), text.first()));
        let writes = move |locked: &[RowKey]| {
            let locked: HashSet<&RowKey> = locked.iter().collect();
            let history_rows: Vec<HistoryRow> = rows.iter().filter(|row| locked.contains(&row.key)).copied().collect();
            let gone = Self::row_batch(&RowBatch::history(&history_rows), &text.steps()[2]);
            let mut writes = history_inserts(&sql, (&text, 1), history_rows);
            writes.push(Statement::step(&text, 2, gone));
            writes
        };
        store.lock_and_write(lock, writes).await
    }

    async fn requeue<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        mut requeues: Vec<Requeue>,
    ) -> Result<Vec<RowRef>, StoreError> {
        let lock = Statement::new(&text, Self::requeues(&requeues, text.first()));
        let writes = |locked: &[RowKey]| {
            let locked: HashSet<MessageId> = locked.iter().map(|key| key.message_id).collect();
            requeues.retain(|requeue| locked.contains(&requeue.message_id));
            Statement::steps_from(&text, 1, |step| Self::requeues(&requeues, step))
        };
        let moved = write_locked(conn, lock, writes).await?;
        // The INSERT does not tell new row ids, and rows are found without.
        Ok(moved.into_iter().map(|key| RowRef { id: None, message_id: key.message_id }).collect())
    }

    async fn remove<P: ConnectionPool<Self>>(
        store: &MysqlStore<P>,
        text: &StatementSql,
        binds: Binds,
    ) -> Result<usize, StoreError> {
        let text = text.clone();
        let find = Statement::new(&text, binds);
        let removes = move |found: &[RowKey]| {
            let found = sorted_unique(found.iter().map(|key| key.message_id));
            Statement::steps_from(&text, 1, |_| vec![Self::messages(&found)])
        };
        Ok(store.lock_and_write(find, removes).await?.len())
    }

    async fn prune<P: ConnectionPool<Self>>(store: &MysqlStore<P>, rows_max: usize) -> Result<Pruned, StoreError> {
        let rows = Self::remove(store, &store.sql.retention.prune, vec![Bind::limit(rows_max)]).await?;
        Ok(Pruned { rows, more: rows == rows_max })
    }

    async fn report_processed<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        messages: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError> {
        let ids = |messages: &[MessageId]| [Self::messages(&sorted_unique(messages.iter().copied()))];
        let there: Vec<Read<(MessageId, ProcessedOutcome)>> = conn.load(Statement::new(&text, ids(&messages))).await?;
        let mut outcomes: HashMap<MessageId, ProcessedOutcome> = there.into_iter().map(|row| row.0).collect();
        for message in messages {
            outcomes.entry(message).or_insert(ProcessedOutcome::NotSettledYet);
        }
        for (wanted, step) in [(ProcessedOutcome::Processed, 1), (ProcessedOutcome::NotSettledYet, 2)] {
            let those = outcomes.iter().filter(|(_, outcome)| **outcome == wanted);
            let those: Vec<MessageId> = those.map(|(message, _)| *message).collect();
            if !those.is_empty() {
                conn.execute(Statement::step(&text, step, ids(&those))).await?;
            }
        }
        Ok(outcomes.into_iter().collect())
    }
}

/// The writes that copy rows into the history from the table they are still in.
pub(super) fn history_inserts(
    sql: &Sql,
    (text, step): (&StatementSql, usize),
    mut rows: Vec<HistoryRow>,
) -> Vec<Statement<Mysql>> {
    rows.sort_unstable_by_key(|row| row.key.id);
    let batch = Mysql::row_batch(&RowBatch::history(&rows), &text.steps()[step]);
    let mut writes = vec![Statement::step(text, step, batch)];
    let awaiting = rows.iter().filter(|row| row.keep.awaits_processing).map(|row| row.key.message_id);
    let awaiting = sorted_unique(awaiting);
    if !awaiting.is_empty() {
        writes.push(Statement::new(&sql.history.remove_applied_reports, [Mysql::messages(&awaiting)]));
    }
    writes
}
