use std::iter;
use std::sync::Arc;

use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sqlite::Sqlite;

use super::bind::look;
use super::{BEGIN, SET_UP, SqliteStore};
use crate::limits::PRUNE_BYTES_MAX;
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::sql::binds::Binds as _;
use crate::store::sql::columns::Columns;
use crate::store::sql::flows::{Flows, Voiding, Written};
use crate::store::sql::group::Group;
use crate::store::sql::rows::Read;
use crate::store::sql::statements::Texts;
use crate::store::statement::{Bind, BindOf, Statement, count};
use crate::store::text::Text;
use crate::store::{
    Claim, ClaimSpec, Kept, Look, LookSpec, Marking, Pruned, RowKey, StoreError, StoreWarning, TopicBacklog, overdue,
};

type Binds = Vec<BindOf<Sqlite>>;

// SQLite's DELETE feeds no INSERT: what moves rows are writes and a statement more that returns them.
impl Flows for Sqlite {
    fn begin<P: Sessions<Self>>(_store: &SqliteStore<P>) -> Arc<str> {
        BEGIN.into()
    }

    /// Whoever writes has the one lock, perhaps for a long transaction that has marked: so long it is waited for. The answer is
    /// "open" then, also where that is some other transaction, and a broker asks again in seconds.
    fn voiding<P: Sessions<Self>>(_store: &SqliteStore<P>) -> Voiding {
        let around = Some(["PRAGMA busy_timeout = 200", SET_UP]);
        Voiding { reads_first: true, around, begin: BEGIN.into(), commit: Self::COMMIT.into() }
    }

    async fn check<P: Sessions<Self>>(store: &SqliteStore<P>) -> Result<Vec<StoreWarning>, StoreError> {
        store.check_database().await
    }

    async fn check_tables<P: Sessions<Self>>(store: &SqliteStore<P>, tables: &[&str]) -> Result<(), StoreError> {
        store.check_named(tables).await
    }

    async fn claim<P: Sessions<Self>>(store: &SqliteStore<P>, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        store.take(spec).await
    }

    async fn look<P: Sessions<Self>>(
        store: &SqliteStore<P>,
        spec: &LookSpec,
        has_pauses: bool,
    ) -> Result<Look, StoreError> {
        store.look_at_once(spec, has_pauses, look(spec)).await
    }

    async fn backlog<P: Sessions<Self>>(
        store: &SqliteStore<P>,
        count_max: usize,
    ) -> Result<Vec<TopicBacklog>, StoreError> {
        let statement = Statement::new(&store.texts.due.backlog, [Bind::limit(count_max)]);
        let topics: Vec<BacklogRow> = store.calls.load(statement).await?;
        Ok(topics.into_iter().map(|row| row.0).collect())
    }

    /// What is there only in the second statement was committed between the two: it is taken for a message in hand, and a second
    /// call writes it.
    async fn write_one<P: Sessions<Self>>(
        store: &SqliteStore<P>,
        text: &Text,
        binds: Binds,
    ) -> Result<Written, StoreError> {
        let written: Vec<String> = store.read(text, binds.clone()).await?;
        if let Some(topic) = written.into_iter().next() {
            return Ok(Written::Topic(topic.into()));
        }
        let there: Vec<Read<String>> = store.calls.load(Statement::step(text, 1, binds)).await?;
        Ok(if there.is_empty() { Written::NotThere } else { Written::Taken })
    }

    async fn replace<P: Sessions<Self>>(
        store: &SqliteStore<P>,
        letter: MessageId,
        by: Binds,
    ) -> Result<bool, StoreError> {
        let binds: Binds = iter::once(Self::id(letter.as_uuid())).chain(by).collect();
        let [remove, write] = [0, 1].map(|at| Statement::step(&store.texts.letters.replace, at, binds.clone()));
        let replaced = store.transact(|lease| {
            Box::pin(async move {
                let removed = lease.execute(remove).await?;
                if removed > 0 {
                    lease.execute(write).await?;
                }
                Ok(removed > 0)
            })
        });
        replaced.await
    }

    async fn keep<P: Sessions<Self>>(
        store: &SqliteStore<P>,
        text: &Text,
        rows: Vec<Kept>,
    ) -> Result<Vec<RowKey>, StoreError> {
        let mut statements = keeping(&store.texts, text, &rows);
        statements.push(Statement::step(text, 1, Self::group(&Group::kept(&rows), &text.steps()[1])));
        store.load_last(statements).await
    }

    async fn prune<P: Sessions<Self>>(store: &SqliteStore<P>, rows_max: usize) -> Result<Pruned, StoreError> {
        let texts = &store.texts.retention;
        let bounds = [Bind::limit(rows_max), Bind::limit(PRUNE_BYTES_MAX)];
        let fallen: Vec<FallenRow> = store.calls.load(Statement::new(&texts.fallen, bounds)).await?;
        let Some(FallenRow { found, fitting }) = fallen.into_iter().next().filter(|fallen| fallen.found > 0) else {
            return Ok(Pruned::default());
        };
        let rows = store.execute(&texts.prune, [Bind::limit(fitting)]).await?;
        Ok(Pruned { rows, more: found == rows_max || fitting < found })
    }

    async fn mark_processed<P: Sessions<Self>>(
        store: &SqliteStore<P>,
        messages: &[MessageId],
    ) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        let step = |at| Statement::step(&store.texts.sent.mark, at, [Self::messages(messages)]);
        let [look, mark, ahead] = [0, 1, 2].map(step);
        let marked = store.transact(|lease| {
            Box::pin(async move {
                let found: Vec<Read<(MessageId, Marking)>> = lease.load(look).await?;
                lease.execute(mark).await?;
                lease.execute(ahead).await?;
                Ok(found)
            })
        });
        Ok(marked.await?.into_iter().map(|row| row.0).collect())
    }
}

/// The writes that put rows into the history, from where they still are.
pub(super) fn keeping(texts: &Texts, text: &Text, rows: &[Kept]) -> Vec<Statement<Sqlite>> {
    let mut writes = vec![Statement::new(text, Sqlite::group(&Group::kept(rows), text.first()))];
    if rows.iter().any(|row| row.keep.awaits_processing) {
        let messages: Vec<MessageId> = rows.iter().map(|row| row.key.message_id).collect();
        writes.push(Statement::new(&texts.kept.take_marks, [Sqlite::messages(&messages)]));
    }
    writes
}

/// What of a topic is in the tables.
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

/// What is to be removed for its age: of the rows that were looked at, how many there are, and how many fit into one step.
struct FallenRow {
    found: usize,
    fitting: usize,
}

impl QueryableByName<Sqlite> for FallenRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        Ok(Self { found: count(Sqlite::number(row, 0)?), fitting: count(Sqlite::number(row, 1)?) })
    }
}
