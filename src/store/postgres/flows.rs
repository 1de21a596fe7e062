use std::sync::Arc;
use std::time::Duration;

use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;

use super::PostgresStore;
use super::bind::{Own, look};
use crate::message::MessageId;
use crate::store::session::Sessions;
use crate::store::sql::binds::Binds as _;
use crate::store::sql::columns::Columns;
use crate::store::sql::flows::{Flows, Voiding, Written};
use crate::store::sql::rows::FromRow;
use crate::store::statement::{Bind, Statement, count};
use crate::store::text::Text;
use crate::store::{
    Claim, ClaimSpec, LaneEntry, LaneScan, Look, LookSpec, Marking, NoticeStore, Pruned, StoreError, StoreWarning,
    TopicBacklog, overdue,
};

type Binds = Vec<Bind<Own>>;

impl Flows for Pg {
    const OWNER_FIRST: bool = true;

    /// A node that stops in the middle keeps no other from what it has locked for longer than this.
    fn begin<P: Sessions<Self>>(store: &PostgresStore<P>) -> Arc<str> {
        let settings = store.local_settings();
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; \
             SET LOCAL idle_in_transaction_session_timeout = 2000"
        )
        .into()
    }

    /// An INSERT of a key that an open transaction has inserted waits for its end: so long, which is no time to somebody who
    /// would be asked again in seconds anyhow.
    fn voiding<P: Sessions<Self>>(store: &PostgresStore<P>) -> Voiding {
        let settings = store.local_settings();
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; SET LOCAL lock_timeout = 200; \
             SET LOCAL idle_in_transaction_session_timeout = 2000"
        );
        Voiding { reads_first: false, around: None, begin: begin.into(), commit: Self::COMMIT.into() }
    }

    async fn check<P: Sessions<Self>>(store: &PostgresStore<P>) -> Result<Vec<StoreWarning>, StoreError> {
        store.calls.connections.within(store.check_database()).await
    }

    async fn check_tables<P: Sessions<Self>>(store: &PostgresStore<P>, tables: &[&str]) -> Result<(), StoreError> {
        store.check_named(tables.iter().map(|table| store.names.qualified(table)).collect()).await
    }

    async fn claim<P: Sessions<Self>>(store: &PostgresStore<P>, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        store.calls.connections.within(store.open_claim(spec)).await
    }

    async fn look<P: Sessions<Self>>(
        store: &PostgresStore<P>,
        spec: &LookSpec,
        has_pauses: bool,
    ) -> Result<Look, StoreError> {
        store.look_at_once(spec, has_pauses, look(spec)).await
    }

    async fn backlog<P: Sessions<Self>>(
        store: &PostgresStore<P>,
        count_max: usize,
    ) -> Result<Vec<TopicBacklog>, StoreError> {
        // Keeps the counts on their indexes, which need no sort. Left to itself the planner takes a bitmap and sorts, which reads
        // all of a topic whatever the LIMIT: 750 ms of 500,000 rows for a thousand of each of 5 topics, so 11 ms.
        let settings = store.local_settings();
        let begin =
            format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; {settings}; SET LOCAL enable_sort = off").into();
        let statement = Statement::new(&store.texts.due.backlog, [Bind::limit(count_max)]);
        let counted = store.calls.run(|lease| {
            Box::pin(async move {
                lease.begin(begin).await?;
                let topics: Vec<BacklogRow> = lease.load(statement).await?;
                lease.commit().await?;
                Ok(topics)
            })
        });
        Ok(counted.await?.into_iter().map(|row| row.0).collect())
    }

    fn notices<P: Sessions<Self>>(store: &PostgresStore<P>) -> Option<&dyn NoticeStore> {
        store.beside.as_ref().map(|_| store as &dyn NoticeStore)
    }

    async fn write_one<P: Sessions<Self>>(
        store: &PostgresStore<P>,
        text: &Text,
        binds: Binds,
    ) -> Result<Written, StoreError> {
        Ok(store.read(text, binds).await?.into_iter().next().unwrap_or(Written::NotThere))
    }

    async fn replace<P: Sessions<Self>>(
        store: &PostgresStore<P>,
        letter: MessageId,
        by: Binds,
    ) -> Result<bool, StoreError> {
        let binds: Binds = [Self::id(letter.as_uuid())].into_iter().chain(by).collect();
        Ok(store.execute(&store.texts.letters.replace, binds).await? > 0)
    }

    async fn make_room<P: Sessions<Self>>(store: &PostgresStore<P>, days: &[u32]) -> Result<(), StoreError> {
        store.make_partitions(days).await
    }

    async fn prune<P: Sessions<Self>>(store: &PostgresStore<P>, rows_max: usize) -> Result<Pruned, StoreError> {
        let dropped = store.drop_partition().await;
        if let Ok(Some(rows)) = dropped {
            return Ok(Pruned { rows, more: true });
        }
        // Also where a day cannot be dropped, because somebody reads it or it is not ours.
        let rows = store.execute(&store.texts.retention.prune, [Bind::limit(rows_max)]).await?;
        dropped?;
        Ok(Pruned { rows, more: rows == rows_max })
    }

    async fn mark_processed<P: Sessions<Self>>(
        store: &PostgresStore<P>,
        messages: &[MessageId],
    ) -> Result<Vec<(MessageId, Marking)>, StoreError> {
        store.read(&store.texts.sent.mark, [Self::messages(messages)]).await
    }

    async fn lane_entries<P: Sessions<Self>>(
        store: &PostgresStore<P>,
        topic: &Arc<str>,
        scans: &[LaneScan],
    ) -> Result<Vec<LaneEntry>, StoreError> {
        let rows_max = |scan: &LaneScan| i64::try_from(scan.rows_max).unwrap_or(i64::MAX);
        let binds: Binds = vec![
            Bind::text(topic),
            Own::Ints(scans.iter().map(|scan| i32::from(scan.lane)).collect()).into(),
            Own::Numbers(scans.iter().map(|scan| scan.after).collect()).into(),
            Own::Numbers(scans.iter().map(rows_max).collect()).into(),
        ];
        store.read(&store.texts.lane_rows.entries, binds).await
    }
}

/// The topic, where the message was written, and whether it was there.
impl FromRow for Written {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> RowResult<Self> {
        Ok(match (DB::optional_text(row, 0)?, DB::flag(row, 1)?) {
            (Some(topic), _) => Self::Topic(topic.into()),
            (None, true) => Self::Taken,
            (None, false) => Self::NotThere,
        })
    }
}

/// What of a topic is in the tables.
struct BacklogRow(TopicBacklog);

impl QueryableByName<Pg> for BacklogRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        let (first_due_at, now) = (Pg::optional_mark(row, 3)?, Pg::mark(row, 4)?);
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
