use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use diesel::data_types::PgTimestamp;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::PostgresStore;
use super::bind::Bind;
use super::rows::{KeyRow, LiveRow, key, micros};
use crate::clock::millis;
use crate::lane::NodeId;
use crate::store::lane_check::{counted, fitting};
use crate::store::lanes::{LaneWrite, LookRow, after, decide};
use crate::store::session::{Sessions, unless_written};
use crate::store::statement::{Statement, count, limit};
use crate::store::stored::kept_text;
use crate::store::{
    Dead, Failed, Held, Horizon, InLane, LaneCount, LaneEntry, LaneKeep, LaneScan, LaneStore, LaneView, Loaded, RowKey,
    StoreError,
};

/// A node that stops in the middle keeps no other from its lanes for longer than this.
fn begin(settings: &str) -> Arc<str> {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; \
         SET LOCAL idle_in_transaction_session_timeout = 2000"
    )
    .into()
}

#[async_trait]
impl<P: Sessions<Pg>> LaneStore for PostgresStore<P> {
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError> {
        self.check_tables(vec![self.names.lanes(), self.names.nodes()]).await?;
        for topic in topics {
            self.prepare_topic(topic).await?;
        }
        Ok(())
    }

    async fn has_ordered_rows(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        self.has_rows_from(topic, 0).await
    }

    async fn look_at_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError> {
        let statement = Statement::new(&self.lane_texts.look, [Bind::Text(Arc::clone(topic))]);
        Ok(LaneView::of(self.connections.poll(statement).await?))
    }

    async fn keep_lanes(&self, keep: &LaneKeep) -> Result<LaneView, StoreError> {
        self.connections.within(self.keep_in_transaction(keep)).await
    }

    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError> {
        if scans.is_empty() {
            return Ok(Vec::new());
        }
        let binds = [
            Bind::Text(Arc::clone(topic)),
            Bind::Ints(scans.iter().map(|scan| i32::from(scan.lane)).collect()),
            Bind::BigInts(scans.iter().map(|scan| scan.after).collect()),
            Bind::BigInts(scans.iter().map(|scan| limit(scan.rows_max)).collect()),
        ];
        let found: Vec<EntryRow> = self.connections.load(Statement::new(&self.lane_texts.entries, binds)).await?;
        Ok(found.into_iter().map(|row| row.0).collect())
    }

    async fn lane_rows(&self, topic: &Arc<str>, rows: &[RowKey]) -> Result<Vec<Loaded>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: HashSet<RowKey> = rows.iter().copied().collect();
        let ids = rows.iter().map(|row| row.id).collect();
        let found: Vec<LiveRow> =
            self.connections.load(Statement::new(&self.lane_texts.rows, [Bind::BigInts(ids)])).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.0.key));
        Ok(ours.map(|found| found.0.decode(topic)).collect())
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[InLane<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let what = [
            Bind::Ints(failed.iter().map(|row| i32::from(row.what.spends_attempt)).collect()),
            Bind::Texts(failed.iter().map(|row| row.what.class.to_owned()).collect()),
            Bind::Texts(failed.iter().map(|row| kept_text(&row.what.error)).collect()),
        ];
        self.write_owned(&self.lane_texts.fail, topic, node, failed, |row| row.held, what).await
    }

    async fn bury_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[InLane<Dead>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let reasons = [Bind::Texts(dead.iter().map(|row| kept_text(&row.what.reason)).collect())];
        self.write_owned(&self.lane_texts.bury, topic, node, dead, |row| row.held, reasons).await
    }
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    /// Whether rows of a topic are in a lane from this one on.
    async fn has_rows_from(&self, topic: &Arc<str>, lane: u16) -> Result<bool, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::BigInt(lane.into())];
        let found: Vec<NumberRow> = self.connections.load(Statement::new(&self.lane_texts.first_from, binds)).await?;
        Ok(!found.is_empty())
    }

    async fn prepare_topic(&self, wanted: &LaneCount) -> Result<(), StoreError> {
        let topic = || Bind::Text(Arc::clone(&wanted.topic));
        let count_lanes = || self.connections.load::<NumberRow>(Statement::new(&self.lane_texts.count, [topic()]));
        if count_lanes().await?.iter().all(|found| found.0 == 0) {
            fitting(self, wanted, self.has_rows_from(&wanted.topic, wanted.lanes).await?).await?;
            let lanes = Bind::BigInt(i64::from(wanted.lanes));
            unless_written(self.connections.execute(Statement::new(&self.lane_texts.create, [topic(), lanes])).await)?;
        }
        counted(wanted, count_lanes().await?.first().map_or(0, |found| found.0))
    }

    async fn keep_in_transaction(&self, keep: &LaneKeep) -> Result<LaneView, StoreError> {
        let texts = &self.lane_texts;
        let topic = || Bind::Text(Arc::clone(&keep.topic));
        let node = || Bind::Uuid(*keep.node.as_uuid());
        let lease_ms = || Bind::BigInt(millis(keep.lease_duration));
        let mut lease = self.connections.lease().await?;
        lease.begin(begin(&self.local_settings())).await?;
        lease.execute(Statement::new(&texts.lock, [topic()])).await?;
        lease.execute(Statement::new(&texts.prune, [topic()])).await?;
        if keep.joins {
            lease.execute(Statement::new(&texts.join, [topic(), node(), lease_ms()])).await?;
        } else {
            lease.execute(Statement::new(&texts.leave, [topic(), node()])).await?;
        }
        let now = LaneView::of(lease.load(Statement::new(&texts.look, [topic()])).await?);
        let writes = decide(&now, keep);
        if !writes.is_empty() {
            let of = |number: fn(&LaneWrite) -> i32| Bind::Ints(writes.iter().map(number).collect());
            let binds = [
                topic(),
                node(),
                of(|write| i32::from(write.lane)),
                Bind::BigInts(writes.iter().map(|write| write.fence).collect()),
                of(|write| write.change as i32),
                lease_ms(),
                Bind::BigInt(millis(keep.quiet_duration)),
            ];
            lease.execute(Statement::new(&texts.write, binds)).await?;
        }
        lease.commit().await?;
        lease.give_back();
        Ok(after(now, keep, &writes))
    }

    /// Runs a statement whose first binds are the lanes' owner and then the rows, each with its epoch and fence.
    async fn write_owned<T: Sync>(
        &self,
        text: &Arc<str>,
        topic: &Arc<str>,
        node: NodeId,
        rows: &[InLane<T>],
        held: impl Fn(&T) -> Held + Send,
        what: impl IntoIterator<Item = Bind> + Send,
    ) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let all_held: Vec<Held> = rows.iter().map(|row| held(&row.what)).collect();
        let owner = [Bind::Text(Arc::clone(topic)), Bind::Uuid(*node.as_uuid())];
        let fences = Bind::BigInts(rows.iter().map(|row| row.fence).collect());
        let binds: Vec<Bind> =
            owner.into_iter().chain(Bind::held(all_held.into_iter())).chain([fences]).chain(what).collect();
        let written: Vec<KeyRow> = self.connections.load(Statement::new(text, binds)).await?;
        Ok(written.into_iter().map(|row| row.0).collect())
    }
}

struct NumberRow(usize);

impl QueryableByName<Pg> for NumberRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        row.get_value::<BigInt, _, _>(0).map(count).map(Self)
    }
}

impl QueryableByName<Pg> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        let (lane, owner): (i32, Option<Uuid>) =
            (row.get_value::<Integer, _, _>(0)?, row.get_value::<Nullable<SqlUuid>, _, _>(1)?);
        Ok(Self {
            lane: lane.into(),
            owner: owner.map(NodeId::from),
            fence: row.get_value::<BigInt, _, _>(2)?,
            expires_in: micros(row.get_value::<BigInt, _, _>(3)?),
            quiet_for: micros(row.get_value::<BigInt, _, _>(4)?),
        })
    }
}

struct EntryRow(LaneEntry);

impl QueryableByName<Pg> for EntryRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        let place: i64 = row.get_value::<BigInt, _, _>(0)?;
        let bytes: i32 = row.get_value::<Integer, _, _>(4)?;
        let created_at: PgTimestamp = row.get_value::<Timestamptz, _, _>(5)?;
        let now: PgTimestamp = row.get_value::<Timestamptz, _, _>(6)?;
        let (ended_below, begun_below): (i64, i64) =
            (row.get_value::<BigInt, _, _>(7)?, row.get_value::<BigInt, _, _>(8)?);
        Ok(Self(LaneEntry {
            scan: count(place.saturating_sub(1)),
            row: key(row, 1)?,
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            bytes: usize::try_from(bytes).unwrap_or(0),
            age: micros(now.0.saturating_sub(created_at.0)),
            horizon: Some(Horizon {
                ended_below: ended_below.cast_unsigned(),
                begun_below: begun_below.cast_unsigned(),
            }),
        }))
    }
}
