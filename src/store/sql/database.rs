use std::iter;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::SqlStore;
use super::binds::Binds;
use super::dialect::{Bind, BindOf, Statement};
use super::executor::PoolConnectionOf;
use super::read_value::Columns;
use super::row_batch::RowBatch;
use super::rows::{FromRow, RawPollRow, Read};
use super::scans::{SCAN_COUNTS, scan_batches};
use super::text::{StatementSql, Step};
use crate::lane::NodeId;
use crate::message::MessageId;
use crate::store::pool::{ConnectionPool, PoolConnection, Session};
use crate::store::{
    Claim, ClaimSpec, HistoryRow, LaneEntry, LaneScan, NoticeStore, PollResult, PollSpec, ProcessedOutcome, Pruned,
    Requeue, RowKey, RowRef, StoreError, StoreWarning, TopicBacklog,
};

/// What a database does differently, if another text or value is not enough. The default methods fit databases whose statements
/// return what they wrote.
pub trait Database: Columns + Binds {
    /// Whether a handed-over row is found by its id, not by its message id.
    const FINDS_BY_ID: bool = true;

    /// Whether the owner of lanes is bound before a batch, not after it.
    const BINDS_OWNER_FIRST: bool = false;

    /// The most connections that a relay can use, whatever its limits are.
    const CONNECTION_BOUND: Option<usize> = None;

    /// Whether each write of an admin operation is one statement, which needs no transaction.
    const WRITES_IN_ONE_STATEMENT: bool = false;

    /// Waits for the disk, if settles do not.
    const FLUSH: Option<&'static str> = None;

    /// Commits a transaction that writes.
    const COMMIT: &'static str = "COMMIT";

    /// Begins such a transaction, whose statements follow each other at once.
    fn begin<P: ConnectionPool<Self>>(store: &SqlStore<Self, P>) -> Arc<str>;

    /// How to void a mark.
    fn void_mark_sql<P: ConnectionPool<Self>>(store: &SqlStore<Self, P>) -> VoidMarkSql;

    fn check<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
    ) -> impl Future<Output = Result<Vec<StoreWarning>, StoreError>> + Send;

    /// Checks that these tables exist and have this version, by their names without a prefix.
    fn check_tables<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        tables: &[&str],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn claim<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        spec: &ClaimSpec,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    fn poll<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        spec: &PollSpec,
        has_pauses: bool,
    ) -> impl Future<Output = Result<PollResult, StoreError>> + Send;

    fn backlog<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        count_max: usize,
    ) -> impl Future<Output = Result<Vec<TopicBacklog>, StoreError>> + Send;

    /// Begins a transaction that reads rows in the order of an index, as far as a LIMIT says. `None` if that needs no settings.
    fn begin_ordered<P: ConnectionPool<Self>>(_store: &SqlStore<Self, P>) -> Option<Arc<str>> {
        None
    }

    fn notices<P: ConnectionPool<Self>>(_store: &SqlStore<Self, P>) -> Option<&dyn NoticeStore> {
        None
    }

    /// Writes one message if nobody holds it, and otherwise reports whether it exists. Part of a transaction, as the other writes
    /// of admin operations, so that the audit is written with it.
    fn write_one<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        binds: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<WriteOutcome, StoreError>> + Send;

    /// Writes `by` in place of a dead letter.
    fn replace<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        letter: MessageId,
        by: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Writes a batch, and returns the rows that could be written.
    fn write<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        text: &StatementSql,
        batch: RowBatch,
        more_binds: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<Vec<RowKey>, StoreError>> + Send {
        async move { store.run_steps(text, |step| append_binds(Self::row_batch(&batch, step), &more_binds)).await }
    }

    /// The same, for rows whose lane the node owns.
    fn write_owned<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        text: &StatementSql,
        (topic, node): (&Arc<str>, NodeId),
        batch: RowBatch,
    ) -> impl Future<Output = Result<Vec<RowKey>, StoreError>> + Send {
        let owner = [Bind::text(topic), Self::id(node.as_uuid())];
        async move {
            let binds = |step: &Step| match Self::BINDS_OWNER_FIRST {
                true => owner.iter().cloned().chain(Self::row_batch(&batch, step)).collect(),
                false => append_binds(Self::row_batch(&batch, step), &owner),
            };
            store.run_steps(text, binds).await
        }
    }

    /// Settles rows and keeps them in the history. They come in locking order.
    fn settle_into_history<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        text: &StatementSql,
        rows: Vec<HistoryRow>,
    ) -> impl Future<Output = Result<Vec<RowKey>, StoreError>> + Send {
        Self::write(store, text, RowBatch::history(&rows), Vec::new())
    }

    /// Moves messages back to the live table; no message is named twice.
    fn requeue<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        requeues: Vec<Requeue>,
    ) -> impl Future<Output = Result<Vec<RowRef>, StoreError>> + Send;

    /// Removes the rows that a statement finds, and counts them.
    fn remove<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        text: &StatementSql,
        binds: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send {
        async move {
            if text.steps().len() == 1 {
                return store.execute(text, binds).await;
            }
            let removes = Statement::steps_from(text, 0, |_| binds.clone());
            let removed = store.transaction(|conn| {
                Box::pin(async move {
                    let mut removed = 0;
                    for remove in removes {
                        removed = conn.execute(remove).await?;
                    }
                    Ok(removed)
                })
            });
            removed.await
        }
    }

    /// Creates the history's partitions ahead.
    fn ensure_partitions<P: ConnectionPool<Self>>(
        _store: &SqlStore<Self, P>,
        _days: &[u32],
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Removes expired rows of the history.
    fn prune<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        rows_max: usize,
    ) -> impl Future<Output = Result<Pruned, StoreError>> + Send;

    /// Records that consumers have processed messages.
    fn report_processed<S: Session<Self>>(
        conn: &mut PoolConnection<Self, S>,
        text: StatementSql,
        messages: Vec<MessageId>,
    ) -> impl Future<Output = Result<Vec<(MessageId, ProcessedOutcome)>, StoreError>> + Send;

    /// The rows of lanes, by scan and then by id. The default is for databases without LATERAL.
    fn lane_entries<P: ConnectionPool<Self>>(
        store: &SqlStore<Self, P>,
        topic: &Arc<str>,
        scans: &[LaneScan],
    ) -> impl Future<Output = Result<Vec<LaneEntry>, StoreError>> + Send {
        async move {
            let mut entries: Vec<LaneEntry> = Vec::new();
            for (first, batch, size) in scan_batches(scans) {
                let nothing = LaneScan { lane: u16::MAX, after: i64::MAX - 1, rows_max: 0 };
                let filled_up = batch.iter().copied().chain(iter::repeat(nothing)).take(SCAN_COUNTS[size]);
                let binds: Vec<BindOf<Self>> = filled_up.flat_map(|scan| scan_binds::<Self>(topic, scan)).collect();
                let statement = Statement::step(&store.sql.lane_rows.entries, size, binds);
                let found: Vec<Read<LaneEntry>> = store.executor.load(statement).await?;
                entries.extend(found.into_iter().map(|Read(entry)| LaneEntry { scan: first + entry.scan, ..entry }));
            }
            entries.sort_by_key(|entry| (entry.scan, entry.row.id));
            Ok(entries)
        }
    }
}

fn scan_binds<DB: Binds>(topic: &Arc<str>, scan: LaneScan) -> [BindOf<DB>; 4] {
    let (lane, after) = (Bind::Number(scan.lane.into()), Bind::Number(DB::after(scan.after)));
    [Bind::text(topic), lane, after, Bind::limit(scan.rows_max)]
}

pub(crate) fn append_binds<B: Clone>(mut binds: Vec<B>, more: &[B]) -> Vec<B> {
    binds.extend_from_slice(more);
    binds
}

/// What became of one message.
#[derive(Debug)]
pub enum WriteOutcome {
    /// It was written, and is of this topic.
    Written(Arc<str>),
    /// It exists, but must not be written.
    Skipped,
    NotFound,
}

impl WriteOutcome {
    /// How many messages it has changed.
    pub(crate) fn changed(&self) -> usize {
        usize::from(matches!(self, Self::Written(_)))
    }
}

/// How a database voids a mark that does not exist.
#[derive(Debug)]
pub struct VoidMarkSql {
    /// Whether an existing mark is read first, because that needs no lock.
    pub(crate) reads_first: bool,
    /// Statements to run before and after the transaction.
    pub(crate) around: Option<[&'static str; 2]>,
    pub(crate) begin: Arc<str>,
    pub(crate) commit: Arc<str>,
}

impl<DB: Database, P: ConnectionPool<DB>> SqlStore<DB, P> {
    /// Runs a statement as its own transaction, and reads its rows.
    pub(crate) async fn read<T>(
        &self,
        text: &StatementSql,
        binds: impl Into<Vec<BindOf<DB>>>,
    ) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        let rows: Vec<Read<T>> = self.executor.load(Statement::new(text, binds)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Runs a statement as its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(
        &self,
        text: &StatementSql,
        binds: impl Into<Vec<BindOf<DB>>>,
    ) -> Result<usize, StoreError> {
        self.executor.execute(Statement::new(text, binds)).await
    }

    /// Runs the texts of a statement, several of them in one transaction, and reads the rows of the last.
    pub(crate) async fn run_steps<T>(
        &self,
        text: &StatementSql,
        binds: impl Fn(&Step) -> Vec<BindOf<DB>>,
    ) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        self.load_last(Statement::steps_from(text, 0, binds)).await
    }

    /// Runs statements in one transaction, and reads the rows of the last. A single statement is its own transaction.
    pub(crate) async fn load_last<T>(&self, mut statements: Vec<Statement<DB>>) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        let Some(last) = statements.pop() else { return Ok(Vec::new()) };
        let rows: Result<Vec<Read<T>>, _> = if statements.is_empty() {
            self.executor.load(last).await
        } else {
            self.transaction(|conn| {
                Box::pin(async move {
                    for statement in statements {
                        conn.execute(statement).await?;
                    }
                    conn.load(last).await
                })
            })
            .await
        };
        Ok(rows?.into_iter().map(|row| row.0).collect())
    }

    /// Polls all topics in one statement.
    pub(crate) async fn poll_topics(
        &self,
        spec: &PollSpec,
        has_pauses: bool,
        binds: impl Into<Vec<BindOf<DB>>>,
    ) -> Result<PollResult, StoreError> {
        let statement = Statement::new(self.sql.due.poll_sql(has_pauses), binds);
        let found: Vec<Read<RawPollRow>> = self.executor.poll(statement).await?;
        let slack = spec.watermark_slack_duration;
        Ok(PollResult::of(found.into_iter().map(|Read(RawPollRow(topic, row))| row.of::<DB>(&topic, slack))))
    }

    /// Runs statements that follow each other at once in one transaction.
    pub(crate) async fn transaction<T: Send + 'static>(
        &self,
        statements: impl for<'l> FnOnce(&'l mut PoolConnectionOf<DB, P>) -> BoxFuture<'l, Result<T, StoreError>>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let begin = DB::begin(self);
        let ran = self.executor.run(|conn| {
            Box::pin(async move {
                conn.begin(begin).await?;
                let ran = statements(conn).await?;
                conn.commit_by(DB::COMMIT.into()).await?;
                Ok(ran)
            })
        });
        ran.await
    }

    /// Writes a batch, and returns the rows that could be written.
    pub(crate) async fn write(
        &self,
        text: &StatementSql,
        batch: RowBatch,
        more_binds: impl Into<Vec<BindOf<DB>>>,
    ) -> Result<Vec<RowKey>, StoreError> {
        if batch.rows.is_empty() {
            return Ok(Vec::new());
        }
        DB::write(self, text, batch, more_binds.into()).await
    }

    pub(crate) async fn check_tables(&self, tables: &[&str]) -> Result<(), StoreError> {
        DB::check_tables(self, tables).await
    }
}
