use std::collections::HashSet;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel::sqlite::Sqlite;
use serde_json::{Value, json};
use uuid::Uuid;

use super::SqliteStore;
use super::bind::Bind;
use super::call::BEGIN;
use super::lane_texts::LaneTexts;
use super::rows::{KeyRow, LiveRow, key, ms};
use crate::clock::millis;
use crate::lane::NodeId;
use crate::store::lane_check::{counted, fitting};
use crate::store::lanes::{LookRow, SCAN_COUNTS, after, decide, scan_groups};
use crate::store::session::{Lease, Session, Sessions, unless_written};
use crate::store::statement::{Statement, count, limit};
use crate::store::stored::kept_text;
use crate::store::{
    Dead, Failed, Held, InLane, LaneCount, LaneEntry, LaneKeep, LaneScan, LaneStore, LaneView, Loaded, RowKey,
    StoreError,
};

#[async_trait]
impl<P: Sessions<Sqlite>> LaneStore for SqliteStore<P> {
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError> {
        self.check_tables(&[("lanes", self.names.lanes()), ("nodes", self.names.nodes())]).await?;
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
        Ok(LaneView::of(self.caller().load(statement).await?))
    }

    async fn keep_lanes(&self, keep: &LaneKeep) -> Result<LaneView, StoreError> {
        let keeping = Keeping { texts: Arc::clone(&self.lane_texts), keep: keep.clone() };
        self.caller().run(|lease| Box::pin(keeping.run(lease))).await
    }

    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError> {
        let mut entries: Vec<LaneEntry> = Vec::new();
        for (first, group, text) in scan_groups(scans) {
            let nothing = LaneScan { lane: u16::MAX, after: i64::MAX - 1, rows_max: 0 };
            let filled_up = group.iter().copied().chain(iter::repeat(nothing)).take(SCAN_COUNTS[text]);
            let binds: Vec<Bind> = filled_up.flat_map(|scan| scan_binds(topic, scan)).collect();
            let statement = Statement::new(&self.lane_texts.entries[text], binds);
            let found: Vec<EntryRow> = self.caller().load(statement).await?;
            entries.extend(found.into_iter().map(|EntryRow(entry)| LaneEntry { scan: first + entry.scan, ..entry }));
        }
        entries.sort_by_key(|entry| (entry.scan, entry.row.id));
        Ok(entries)
    }

    async fn lane_rows(&self, topic: &Arc<str>, rows: &[RowKey]) -> Result<Vec<Loaded>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: HashSet<RowKey> = rows.iter().copied().collect();
        let ids: HashSet<i64> = rows.iter().map(|row| row.id).collect();
        let ids = Bind::json(ids.into_iter().map(Value::from));
        let found: Vec<LiveRow> = self.caller().load(Statement::new(&self.lane_texts.rows, [ids])).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.0.key));
        Ok(ours.map(|found| found.0.decode(topic)).collect())
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[InLane<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        if failed.is_empty() {
            return Ok(Vec::new());
        }
        let what =
            |row: &Failed| vec![u8::from(row.spends_attempt).into(), row.class.into(), kept_text(&row.error).into()];
        let binds = owned(topic, node, failed, |row| row.held, what);
        let written: Vec<KeyRow> = self.caller().load(Statement::new(&self.lane_texts.fail, binds)).await?;
        Ok(written.into_iter().map(|row| row.0).collect())
    }

    async fn bury_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[InLane<Dead>],
    ) -> Result<Vec<RowKey>, StoreError> {
        if dead.is_empty() {
            return Ok(Vec::new());
        }
        let binds = || owned(topic, node, dead, |row| row.held, |row| vec![kept_text(&row.reason).into()]);
        let bury = Statement::new(&self.lane_texts.bury, binds());
        let remove = Statement::new(&self.lane_texts.remove, binds());
        let moved: Vec<KeyRow> = self.caller().write_and_load(vec![bury], remove).await?;
        Ok(moved.into_iter().map(|row| row.0).collect())
    }
}

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    /// Whether rows of a topic are in a lane from this one on.
    async fn has_rows_from(&self, topic: &Arc<str>, lane: u16) -> Result<bool, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::BigInt(lane.into())];
        let found: Vec<NumberRow> = self.caller().load(Statement::new(&self.lane_texts.first_from, binds)).await?;
        Ok(!found.is_empty())
    }

    async fn prepare_topic(&self, wanted: &LaneCount) -> Result<(), StoreError> {
        let caller = self.caller();
        let topic = || Bind::Text(Arc::clone(&wanted.topic));
        let count_lanes = || caller.load::<NumberRow>(Statement::new(&self.lane_texts.count, [topic()]));
        if count_lanes().await?.iter().all(|found| found.0 == 0) {
            fitting(self, wanted, self.has_rows_from(&wanted.topic, wanted.lanes).await?).await?;
            let lanes = Bind::json((0..wanted.lanes).map(Value::from));
            unless_written(caller.execute(Statement::new(&self.lane_texts.create, [topic(), lanes])).await)?;
        }
        counted(wanted, count_lanes().await?.first().map_or(0, |found| found.0))
    }
}

/// A keep on its way.
struct Keeping {
    texts: Arc<LaneTexts>,
    keep: LaneKeep,
}

impl Keeping {
    async fn run<S: Session<Sqlite>>(self, lease: &mut Lease<Sqlite, S>) -> Result<LaneView, StoreError> {
        let Self { texts, keep } = self;
        let topic = || Bind::Text(Arc::clone(&keep.topic));
        let lease_ms = || Bind::BigInt(millis(keep.lease_duration));
        lease.begin(BEGIN.into()).await?;
        lease.execute(Statement::new(&texts.prune, [topic()])).await?;
        if keep.joins {
            lease.execute(Statement::new(&texts.join, [topic(), id(keep.node), lease_ms()])).await?;
        } else {
            lease.execute(Statement::new(&texts.leave, [topic(), id(keep.node)])).await?;
        }
        let now = LaneView::of(lease.load(Statement::new(&texts.look, [topic()])).await?);
        let writes = decide(&now, &keep);
        if !writes.is_empty() {
            let group = Bind::json(writes.iter().map(|write| json!([write.lane, write.fence, write.change as i32])));
            let binds = [topic(), id(keep.node), group, lease_ms(), Bind::BigInt(millis(keep.quiet_duration))];
            lease.execute(Statement::new(&texts.write, binds)).await?;
        }
        lease.commit().await?;
        Ok(after(now, &keep, &writes))
    }
}

fn id(node: NodeId) -> Bind {
    Bind::MessageIds(node.as_uuid().as_bytes().to_vec())
}

/// `[[id, epoch, fence, ..], ..]`, the message ids, the topic and the lanes' owner.
fn owned<T>(
    topic: &Arc<str>,
    node: NodeId,
    rows: &[InLane<T>],
    held: impl Fn(&T) -> Held,
    rest: impl Fn(&T) -> Vec<Value>,
) -> Vec<Bind> {
    let columns = |row: &InLane<T>| {
        let mut columns = vec![row.fence.into()];
        columns.extend(rest(&row.what));
        columns
    };
    let rows = Bind::held(rows, |row| held(&row.what), columns);
    rows.into_iter().chain([Bind::Text(Arc::clone(topic)), id(node)]).collect()
}

fn scan_binds(topic: &Arc<str>, scan: LaneScan) -> [Bind; 4] {
    let (lane, after) = (Bind::BigInt(scan.lane.into()), Bind::BigInt(scan.after));
    [Bind::Text(Arc::clone(topic)), lane, after, Bind::BigInt(limit(scan.rows_max))]
}

struct NumberRow(usize);

impl QueryableByName<Sqlite> for NumberRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        row.get_value::<BigInt, _, _>(0).map(count).map(Self)
    }
}

impl QueryableByName<Sqlite> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        let owner: Option<Vec<u8>> = row.get_value::<Nullable<Binary>, _, _>(1)?;
        Ok(Self {
            lane: row.get_value::<BigInt, _, _>(0)?,
            owner: owner.map(|id| Uuid::from_slice(&id)).transpose()?.map(NodeId::from),
            fence: row.get_value::<BigInt, _, _>(2)?,
            expires_in: ms(row.get_value::<BigInt, _, _>(3)?),
            quiet_for: ms(row.get_value::<BigInt, _, _>(4)?),
        })
    }
}

struct EntryRow(LaneEntry);

impl QueryableByName<Sqlite> for EntryRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        Ok(Self(LaneEntry {
            scan: count(row.get_value::<BigInt, _, _>(0)?),
            row: key(row, 1)?,
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            bytes: count(row.get_value::<BigInt, _, _>(4)?),
            // One transaction writes at a time.
            age: Duration::MAX,
            horizon: None,
        }))
    }
}
