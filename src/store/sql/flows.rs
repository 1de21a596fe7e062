use std::iter;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::SqlStore;
use super::binds::Binds;
use super::calls::OpenLease;
use super::columns::Columns;
use super::group::Group;
use super::rows::{FromRow, LookedAt, Read};
use super::scans::{SCAN_COUNTS, scan_groups};
use crate::lane::NodeId;
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::statement::{Bind, BindOf, Statement};
use crate::store::text::{Step, Text};
use crate::store::{
    Claim, ClaimSpec, Kept, LaneEntry, LaneScan, Look, LookSpec, Marking, NoticeStore, Pruned, Return, RowKey,
    StoreError, StoreWarning, TopicBacklog,
};

/// What a database does differently from the others, where a different text or value is not enough. The default methods fit databases
/// whose statements return what they wrote.
pub trait Flows: Columns + Binds {
    /// Whether a handed-over row is looked for by its id, and not by its message id.
    const FINDS_BY_ID: bool = true;

    /// Whether the owner of lanes is bound before a group, and not after it.
    const OWNER_FIRST: bool = false;

    /// Commits a transaction that writes.
    const COMMIT: &'static str = "COMMIT";

    /// Begins such a transaction, whose statements follow each other at once.
    fn begin<P: Sessions<Self>>(store: &SqlStore<Self, P>) -> Arc<str>;

    /// How a mark is voided.
    fn voiding<P: Sessions<Self>>(store: &SqlStore<Self, P>) -> Voiding;

    fn check<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
    ) -> impl Future<Output = Result<Vec<StoreWarning>, StoreError>> + Send;

    /// Looks whether these are there and of this version, by their names without a prefix.
    fn check_tables<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        tables: &[&str],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn claim<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        spec: &ClaimSpec,
    ) -> impl Future<Output = Result<Claim, StoreError>> + Send;

    fn look<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        spec: &LookSpec,
        has_pauses: bool,
    ) -> impl Future<Output = Result<Look, StoreError>> + Send;

    fn backlog<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        count_max: usize,
    ) -> impl Future<Output = Result<Vec<TopicBacklog>, StoreError>> + Send;

    fn notices<P: Sessions<Self>>(_store: &SqlStore<Self, P>) -> Option<&dyn NoticeStore> {
        None
    }

    /// Writes one message where nobody holds it, and says whether it is there where somebody does.
    fn write_one<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        text: &Text,
        binds: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<Written, StoreError>> + Send;

    /// Writes `by` in place of a dead letter.
    fn replace<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        letter: MessageId,
        by: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Writes a group, and returns what of it could be written.
    fn write<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        text: &Text,
        group: Group,
        rest: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<Vec<RowKey>, StoreError>> + Send {
        async move { store.run_steps(text, |step| with(Self::group(&group, step), &rest)).await }
    }

    /// The same of rows whose lane the node owns.
    fn write_owned<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        text: &Text,
        (topic, node): (&Arc<str>, NodeId),
        group: Group,
    ) -> impl Future<Output = Result<Vec<RowKey>, StoreError>> + Send {
        let owner = [Bind::text(topic), Self::id(node.as_uuid())];
        async move {
            let binds = |step: &Step| match Self::OWNER_FIRST {
                true => owner.iter().cloned().chain(Self::group(&group, step)).collect(),
                false => with(Self::group(&group, step), &owner),
            };
            store.run_steps(text, binds).await
        }
    }

    /// Settles rows and keeps them. They come in the order in which they are locked.
    fn keep<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        text: &Text,
        rows: Vec<Kept>,
    ) -> impl Future<Output = Result<Vec<RowKey>, StoreError>> + Send {
        Self::write(store, text, Group::kept(&rows), Vec::new())
    }

    /// Moves messages back to the live ones, each of them named once.
    fn move_back<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        text: &Text,
        back: Vec<Return>,
    ) -> impl Future<Output = Result<Vec<MessageId>, StoreError>> + Send {
        async move { store.run_steps(text, |step| Self::back(&back, step)).await }
    }

    /// Removes what a statement finds, and says how many rows that were.
    fn remove<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        text: &Text,
        binds: Vec<BindOf<Self>>,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send {
        async move {
            if text.steps().len() == 1 {
                return store.execute(text, binds).await;
            }
            let removes = Statement::steps_from(text, 0, |_| binds.clone());
            let removed = store.transact(|lease| {
                Box::pin(async move {
                    let mut removed = 0;
                    for remove in removes {
                        removed = lease.execute(remove).await?;
                    }
                    Ok(removed)
                })
            });
            removed.await
        }
    }

    /// Makes room in the history.
    fn make_room<P: Sessions<Self>>(
        _store: &SqlStore<Self, P>,
        _days: &[u32],
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// Removes what the history keeps no longer.
    fn prune<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        rows_max: usize,
    ) -> impl Future<Output = Result<Pruned, StoreError>> + Send;

    /// Marks messages as processed.
    fn mark_processed<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        messages: &[MessageId],
    ) -> impl Future<Output = Result<Vec<(MessageId, Marking)>, StoreError>> + Send;

    /// The rows of lanes, by scan and then by id. The default is for databases without LATERAL.
    fn lane_entries<P: Sessions<Self>>(
        store: &SqlStore<Self, P>,
        topic: &Arc<str>,
        scans: &[LaneScan],
    ) -> impl Future<Output = Result<Vec<LaneEntry>, StoreError>> + Send {
        async move {
            let mut entries: Vec<LaneEntry> = Vec::new();
            for (first, group, size) in scan_groups(scans) {
                let nothing = LaneScan { lane: u16::MAX, after: i64::MAX - 1, rows_max: 0 };
                let filled_up = group.iter().copied().chain(iter::repeat(nothing)).take(SCAN_COUNTS[size]);
                let binds: Vec<BindOf<Self>> = filled_up.flat_map(|scan| scan_binds::<Self>(topic, scan)).collect();
                let statement = Statement::step(&store.texts.lane_rows.entries, size, binds);
                let found: Vec<Read<LaneEntry>> = store.calls.load(statement).await?;
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

pub(crate) fn with<B: Clone>(mut binds: Vec<B>, rest: &[B]) -> Vec<B> {
    binds.extend_from_slice(rest);
    binds
}

/// What became of one message.
#[derive(Debug)]
pub enum Written {
    /// It was written, and is of this topic.
    Topic(Arc<str>),
    /// It is there, and not to be written.
    Taken,
    NotThere,
}

/// How a database voids a mark that is not there.
#[derive(Debug)]
pub struct Voiding {
    /// Whether a mark that is there is read first, because that needs no lock.
    pub(crate) reads_first: bool,
    /// Run before and after the transaction.
    pub(crate) around: Option<[&'static str; 2]>,
    pub(crate) begin: Arc<str>,
    pub(crate) commit: Arc<str>,
}

impl<DB: Flows, P: Sessions<DB>> SqlStore<DB, P> {
    /// Runs a statement that is its own transaction, and reads its rows.
    pub(crate) async fn read<T>(&self, text: &Text, binds: impl Into<Vec<BindOf<DB>>>) -> Result<Vec<T>, StoreError>
    where
        T: FromRow + Send + 'static,
    {
        let rows: Vec<Read<T>> = self.calls.load(Statement::new(text, binds)).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Runs a statement that is its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(&self, text: &Text, binds: impl Into<Vec<BindOf<DB>>>) -> Result<usize, StoreError> {
        self.calls.execute(Statement::new(text, binds)).await
    }

    /// Runs the texts of a statement, several of them in one transaction, and reads the rows of the last.
    pub(crate) async fn run_steps<T>(
        &self,
        text: &Text,
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
            self.calls.load(last).await
        } else {
            self.transact(|lease| {
                Box::pin(async move {
                    for statement in statements {
                        lease.execute(statement).await?;
                    }
                    lease.load(last).await
                })
            })
            .await
        };
        Ok(rows?.into_iter().map(|row| row.0).collect())
    }

    /// Looks at all topics in one statement.
    pub(crate) async fn look_at_once(
        &self,
        spec: &LookSpec,
        has_pauses: bool,
        binds: impl Into<Vec<BindOf<DB>>>,
    ) -> Result<Look, StoreError> {
        let statement = Statement::new(self.texts.due.look_text(has_pauses), binds);
        let found: Vec<Read<LookedAt>> = self.calls.poll(statement).await?;
        let slack = spec.watermark_slack_duration;
        Ok(Look::of(found.into_iter().map(|Read(LookedAt(topic, looked))| looked.of::<DB>(&topic, slack))))
    }

    /// Runs statements that follow each other at once in one transaction.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        statements: impl for<'l> FnOnce(&'l mut OpenLease<DB, P>) -> BoxFuture<'l, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let begin = DB::begin(self);
        let ran = self.calls.run(|lease| {
            Box::pin(async move {
                lease.begin(begin).await?;
                let ran = statements(lease).await?;
                lease.commit_by(DB::COMMIT.into()).await?;
                Ok(ran)
            })
        });
        ran.await
    }

    /// Writes a group, and returns what of it could be written.
    pub(crate) async fn write(
        &self,
        text: &Text,
        group: Group,
        rest: impl Into<Vec<BindOf<DB>>>,
    ) -> Result<Vec<RowKey>, StoreError> {
        if group.rows.is_empty() {
            return Ok(Vec::new());
        }
        DB::write(self, text, group, rest.into()).await
    }

    pub(crate) async fn check_tables(&self, tables: &[&str]) -> Result<(), StoreError> {
        DB::check_tables(self, tables).await
    }
}
