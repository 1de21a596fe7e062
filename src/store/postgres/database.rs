use std::sync::Arc;
use std::time::Duration;

use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;

use super::PostgresStore;
use super::bind::{PgBind, poll_binds};
use crate::message::MessageId;
use crate::store::pool::{ConnectionPool, PoolConnection, Session};
use crate::store::sql::binds::Binds as _;
use crate::store::sql::database::{Database, VoidMarkSql, WriteOutcome};
use crate::store::sql::dialect::{Bind, Statement, count};
use crate::store::sql::read_value::Columns;
use crate::store::sql::rows::{FromRow, Read};
use crate::store::sql::text::StatementSql;
use crate::store::{
    Claim, ClaimSpec, LaneEntry, LaneScan, NoticeStore, PollResult, PollSpec, ProcessedOutcome, Pruned, Requeue,
    RowKey, RowRef, StoreError, StoreWarning, TopicBacklog, overdue,
};

type Binds = Vec<Bind<PgBind>>;

impl Database for Pg {
    const BINDS_OWNER_FIRST: bool = true;

    const WRITES_IN_ONE_STATEMENT: bool = true;

    /// A COMMIT that waits for the disk waits for all before it. It does so only if its transaction wrote something: here a message
    /// that nobody decodes.
    const FLUSH: Option<&'static str> = Some("SELECT pg_logical_emit_message(true, 'outbox', '')");

    /// A node that stops in the middle of a transaction keeps its locks no longer than this.
    fn begin<P: ConnectionPool<Self>>(store: &PostgresStore<P>) -> Arc<str> {
        let settings = store.local_settings();
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; \
             SET LOCAL idle_in_transaction_session_timeout = 2000"
        )
        .into()
    }

    /// An INSERT of a key that an open transaction has inserted waits for that transaction's end. Here it waits only this long,
    /// because the caller asks again within seconds.
    fn void_mark_sql<P: ConnectionPool<Self>>(store: &PostgresStore<P>) -> VoidMarkSql {
        let settings = store.local_settings();
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; SET LOCAL lock_timeout = 200; \
             SET LOCAL idle_in_transaction_session_timeout = 2000"
        );
        VoidMarkSql { reads_first: false, around: None, begin: begin.into(), commit: Self::COMMIT.into() }
    }

    async fn check<P: ConnectionPool<Self>>(store: &PostgresStore<P>) -> Result<Vec<StoreWarning>, StoreError> {
        store.executor.connections.within(store.check_database()).await
    }

    async fn check_tables<P: ConnectionPool<Self>>(
        store: &PostgresStore<P>,
        tables: &[&str],
    ) -> Result<(), StoreError> {
        store.check_named(tables.iter().map(|table| store.names.qualified(table)).collect()).await
    }

    async fn claim<P: ConnectionPool<Self>>(store: &PostgresStore<P>, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        store.executor.connections.within(store.open_claim(spec)).await
    }

    async fn poll<P: ConnectionPool<Self>>(
        store: &PostgresStore<P>,
        spec: &PollSpec,
        has_pauses: bool,
    ) -> Result<PollResult, StoreError> {
        store.poll_topics(spec, has_pauses, poll_binds(spec)).await
    }

    async fn backlog<P: ConnectionPool<Self>>(
        store: &PostgresStore<P>,
        count_max: usize,
    ) -> Result<Vec<TopicBacklog>, StoreError> {
        // An idle relay counts too, mostly empty tables: then this is the only statement.
        let any: Vec<Read<String>> = store.executor.poll(Statement::new(&store.sql.due.any, [])).await?;
        if any.is_empty() {
            return Ok(Vec::new());
        }
        // Keeps the counts on their indexes, which need no sort. Otherwise the planner chooses a bitmap scan and a sort, which read
        // all of a topic whatever the LIMIT: in 500,000 rows, counting a thousand of each of 5 topics takes 750 ms, not 11.
        let settings = store.local_settings();
        // The planner takes the LIMIT for a tenth of the rows. In a million it then compiles the statement, for longer than it runs.
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {settings}; SET LOCAL enable_sort = off; SET LOCAL jit = off"
        );
        let begin = begin.into();
        let statement = Statement::new(&store.sql.due.backlog, [Bind::limit(count_max)]);
        let counted = store.executor.run(|conn| {
            Box::pin(async move {
                conn.begin(begin).await?;
                let topics: Vec<BacklogRow> = conn.load(statement).await?;
                conn.commit().await?;
                Ok(topics)
            })
        });
        Ok(counted.await?.into_iter().map(|row| row.0).collect())
    }

    /// As for the backlog: a plan that sorts, or scans the table, reads all of a topic whatever the LIMIT. Statistics that say that the
    /// table is small lead to one. Without JIT, which the cost of a sort that cannot be avoided would start.
    fn begin_ordered<P: ConnectionPool<Self>>(store: &PostgresStore<P>) -> Option<Arc<str>> {
        let settings = store.local_settings();
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {settings}; SET LOCAL enable_sort = off; \
             SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off"
        );
        Some(begin.into())
    }

    fn notices<P: ConnectionPool<Self>>(store: &PostgresStore<P>) -> Option<&dyn NoticeStore> {
        store.extra.as_ref().map(|_| store as &dyn NoticeStore)
    }

    async fn write_one<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        binds: Binds,
    ) -> Result<WriteOutcome, StoreError> {
        let written: Vec<Read<WriteOutcome>> = conn.load(Statement::new(&text, binds)).await?;
        Ok(written.into_iter().next().map_or(WriteOutcome::NotFound, |row| row.0))
    }

    async fn replace<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        letter: MessageId,
        by: Binds,
    ) -> Result<bool, StoreError> {
        let binds: Binds = [Self::id(letter.as_uuid())].into_iter().chain(by).collect();
        Ok(conn.execute(Statement::new(&text, binds)).await? > 0)
    }

    async fn requeue<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        requeues: Vec<Requeue>,
    ) -> Result<Vec<RowRef>, StoreError> {
        let binds = Self::requeues(&requeues, text.first());
        let moved: Vec<Read<RowKey>> = conn.load(Statement::new(&text, binds)).await?;
        Ok(moved.into_iter().map(|row| row.0.into()).collect())
    }

    async fn ensure_partitions<P: ConnectionPool<Self>>(
        store: &PostgresStore<P>,
        days: &[u32],
    ) -> Result<(), StoreError> {
        store.make_partitions(days).await
    }

    async fn prune<P: ConnectionPool<Self>>(store: &PostgresStore<P>, rows_max: usize) -> Result<Pruned, StoreError> {
        let dropped = store.drop_partition().await;
        if let Ok(Some(rows)) = dropped {
            return Ok(Pruned { rows, more: true });
        }
        // Also if no partition can be dropped, because somebody reads it or it is not ours.
        let rows = store.execute(&store.sql.retention.prune, [Bind::limit(rows_max)]).await?;
        dropped?;
        Ok(Pruned { rows, more: rows == rows_max })
    }

    async fn report_processed<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        messages: Vec<MessageId>,
    ) -> Result<Vec<(MessageId, ProcessedOutcome)>, StoreError> {
        let reported: Vec<Read<(MessageId, ProcessedOutcome)>> =
            conn.load(Statement::new(&text, [Self::messages(&messages)])).await?;
        Ok(reported.into_iter().map(|row| row.0).collect())
    }

    async fn lane_entries<P: ConnectionPool<Self>>(
        store: &PostgresStore<P>,
        topic: &Arc<str>,
        scans: &[LaneScan],
    ) -> Result<Vec<LaneEntry>, StoreError> {
        let rows_max = |scan: &LaneScan| i64::try_from(scan.rows_max).unwrap_or(i64::MAX);
        let binds: Binds = vec![
            Bind::text(topic),
            PgBind::Ints(scans.iter().map(|scan| i32::from(scan.lane)).collect()).into(),
            PgBind::Numbers(scans.iter().map(|scan| scan.after).collect()).into(),
            PgBind::Numbers(scans.iter().map(rows_max).collect()).into(),
        ];
        store.read(&store.sql.lane_rows.entries, binds).await
    }
}

/// The topic, the message's position, and whether it was there.
impl FromRow for WriteOutcome {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> RowResult<Self> {
        Ok(match (DB::optional_text(row, 0)?, DB::flag(row, 1)?) {
            (Some(topic), _) => Self::Written(topic.into()),
            (None, true) => Self::Skipped,
            (None, false) => Self::NotFound,
        })
    }
}

/// The backlog of a topic.
struct BacklogRow(TopicBacklog);

impl QueryableByName<Pg> for BacklogRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        let (first_due_at, now) = (Pg::optional_raw_instant(row, 3)?, Pg::raw_instant(row, 4)?);
        let overdue_by = |first: i64| overdue(Pg::ticks(now.saturating_sub(first)));
        Ok(Self(TopicBacklog {
            topic: Pg::text(row, 0)?.into(),
            live: count(Pg::number(row, 1)?),
            due: count(Pg::number(row, 2)?),
            overdue_by: first_due_at.map_or(Duration::ZERO, overdue_by),
            dead: count(Pg::number(row, 5)?),
        }))
    }
}
