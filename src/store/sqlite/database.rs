use std::iter;
use std::sync::Arc;

use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sqlite::Sqlite;

use super::bind::poll_binds;
use super::{BEGIN, SET_UP, SqliteStore};
use crate::limits::{PRUNE_BYTES_MAX, SQLITE_CONNECTIONS};
use crate::message::MessageId;
use crate::store::pool::{ConnectionPool, PoolConnection, Session};
use crate::store::sql::binds::Binds as _;
use crate::store::sql::database::{Database, VoidMarkSql, WriteOutcome};
use crate::store::sql::dialect::{Bind, BindOf, Statement, count};
use crate::store::sql::read_value::Columns;
use crate::store::sql::row_batch::RowBatch;
use crate::store::sql::rows::Read;
use crate::store::sql::statements::Sql;
use crate::store::sql::text::StatementSql;
use crate::store::{
    Claim, ClaimSpec, HistoryRow, PollResult, PollSpec, ProcessedOutcome, Pruned, Requeue, RowKey, RowRef, StoreError,
    StoreWarning, TopicBacklog, overdue,
};

type Binds = Vec<BindOf<Sqlite>>;

// SQLite's DELETE feeds no INSERT: rows are moved by several writes, and one more statement returns them.
impl Database for Sqlite {
    const CONNECTION_BOUND: Option<usize> = Some(SQLITE_CONNECTIONS);

    fn begin<P: ConnectionPool<Self>>(_store: &SqliteStore<P>) -> Arc<str> {
        BEGIN.into()
    }

    /// Every writer takes the one lock, perhaps a long transaction that has written a mark: this is how long to wait for it. Then
    /// the answer is "open", even for another transaction, and a broker asks again within seconds.
    fn void_mark_sql<P: ConnectionPool<Self>>(_store: &SqliteStore<P>) -> VoidMarkSql {
        let around = Some(["PRAGMA busy_timeout = 200", SET_UP]);
        VoidMarkSql { reads_first: true, around, begin: BEGIN.into(), commit: Self::COMMIT.into() }
    }

    async fn check<P: ConnectionPool<Self>>(store: &SqliteStore<P>) -> Result<Vec<StoreWarning>, StoreError> {
        store.check_database().await
    }

    async fn check_tables<P: ConnectionPool<Self>>(store: &SqliteStore<P>, tables: &[&str]) -> Result<(), StoreError> {
        store.check_named(tables).await
    }

    async fn claim<P: ConnectionPool<Self>>(store: &SqliteStore<P>, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        store.open_claim(spec).await
    }

    async fn poll<P: ConnectionPool<Self>>(
        store: &SqliteStore<P>,
        spec: &PollSpec,
        has_pauses: bool,
    ) -> Result<PollResult, StoreError> {
        store.poll_topics(spec, has_pauses, poll_binds(spec)).await
    }

    async fn backlog<P: ConnectionPool<Self>>(
        store: &SqliteStore<P>,
        count_max: usize,
    ) -> Result<Vec<TopicBacklog>, StoreError> {
        let statement = Statement::new(&store.sql.due.backlog, [Bind::limit(count_max)]);
        let topics: Vec<BacklogRow> = store.executor.load(statement).await?;
        Ok(topics.into_iter().map(|row| row.0).collect())
    }

    async fn write_one<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        binds: Binds,
    ) -> Result<WriteOutcome, StoreError> {
        let written: Vec<Read<String>> = conn.load(Statement::new(&text, binds.clone())).await?;
        if let Some(Read(topic)) = written.into_iter().next() {
            return Ok(WriteOutcome::Written(topic.into()));
        }
        let there: Vec<Read<String>> = conn.load(Statement::step(&text, 1, binds)).await?;
        Ok(if there.is_empty() { WriteOutcome::NotFound } else { WriteOutcome::Skipped })
    }

    async fn replace<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        letter: MessageId,
        by: Binds,
    ) -> Result<bool, StoreError> {
        let binds: Binds = iter::once(Self::id(letter.as_uuid())).chain(by).collect();
        let [remove, write] = [0, 1].map(|at| Statement::step(&text, at, binds.clone()));
        let removed = conn.execute(remove).await?;
        if removed > 0 {
            conn.execute(write).await?;
        }
        Ok(removed > 0)
    }

    /// Every step but the last returns rows that it wrote.
    async fn requeue<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        requeues: Vec<Requeue>,
    ) -> Result<Vec<RowRef>, StoreError> {
        let mut steps = Statement::steps_from(&text, 0, |step| Self::requeues(&requeues, step));
        let remove = steps.pop();
        let mut moved = Vec::new();
        for write in steps {
            let written: Vec<Read<RowKey>> = conn.load(write).await?;
            moved.extend(written.into_iter().map(|row| RowRef::from(row.0)));
        }
        if let Some(remove) = remove {
            conn.execute(remove).await?;
        }
        Ok(moved)
    }

    async fn settle_into_history<P: ConnectionPool<Self>>(
        store: &SqliteStore<P>,
        text: &StatementSql,
        rows: Vec<HistoryRow>,
    ) -> Result<Vec<RowKey>, StoreError> {
        let mut statements = history_inserts(&store.sql, text, &rows);
        statements.push(Statement::step(text, 1, Self::row_batch(&RowBatch::history(&rows), &text.steps()[1])));
        store.load_last(statements).await
    }

    async fn prune<P: ConnectionPool<Self>>(store: &SqliteStore<P>, rows_max: usize) -> Result<Pruned, StoreError> {
        let sql = &store.sql.retention;
        let bounds = [Bind::limit(rows_max), Bind::limit(PRUNE_BYTES_MAX)];
        let expired: Vec<ExpiredRows> = store.executor.load(Statement::new(&sql.expired, bounds)).await?;
        let Some(ExpiredRows { found, fitting }) = expired.into_iter().next().filter(|expired| expired.found > 0)
        else {
            return Ok(Pruned::default());
        };
        let rows = store.execute(&sql.prune, [Bind::limit(fitting)]).await?;
        Ok(Pruned { rows, more: found == rows_max || fitting < found })
    }

    async fn report_processed<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        messages: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError> {
        let [find, record, ahead] = [0, 1, 2].map(|at| Statement::step(&text, at, [Self::messages(&messages)]));
        let found: Vec<Read<(MessageId, ProcessedOutcome)>> = conn.load(find).await?;
        conn.execute(record).await?;
        conn.execute(ahead).await?;
        Ok(found.into_iter().map(|row| row.0).collect())
    }
}

/// The writes that copy rows into the history from the table they are still in.
pub(super) fn history_inserts(sql: &Sql, text: &StatementSql, rows: &[HistoryRow]) -> Vec<Statement<Sqlite>> {
    let mut writes = vec![Statement::new(text, Sqlite::row_batch(&RowBatch::history(rows), text.first()))];
    if rows.iter().any(|row| row.keep.awaits_processing) {
        let messages: Vec<MessageId> = rows.iter().map(|row| row.key.message_id).collect();
        writes.push(Statement::new(&sql.history.remove_applied_reports, [Sqlite::messages(&messages)]));
    }
    writes
}

/// The backlog of a topic.
struct BacklogRow(TopicBacklog);

impl QueryableByName<Sqlite> for BacklogRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        Ok(Self(TopicBacklog {
            topic: Sqlite::text(row, 0)?.into(),
            live: count(Sqlite::number(row, 1)?),
            due: count(Sqlite::number(row, 2)?),
            overdue_by: overdue(Sqlite::left(row, 3)?),
            dead: count(Sqlite::number(row, 4)?),
        }))
    }
}

/// Expired rows: how many of those read there are, and how many fit into one step.
struct ExpiredRows {
    found: usize,
    fitting: usize,
}

impl QueryableByName<Sqlite> for ExpiredRows {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        Ok(Self { found: count(Sqlite::number(row, 0)?), fitting: count(Sqlite::number(row, 1)?) })
    }
}
