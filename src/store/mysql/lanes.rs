use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use uuid::Uuid;

use super::MysqlStore;
use super::bind::Bind;
use super::group::Write;
use super::rows::{KeyRow, LiveRow, key, micros as duration};
use super::texts::{COMMIT, begin_write};
use crate::lane::NodeId;
use crate::store::lane_check::{counted, fitting};
use crate::store::lanes::{LookRow, SCAN_COUNTS, after, decide, scan_groups};
use crate::store::session::{Sessions, unless_written};
use crate::store::statement::{Statement, count, limit, micros};
use crate::store::stored::kept_text;
use crate::store::{
    Dead, Failed, Held, InLane, LaneCount, LaneEntry, LaneKeep, LaneScan, LaneStore, LaneView, Loaded, RowKey,
    StoreError,
};

#[async_trait]
impl<P: Sessions<Mysql>> LaneStore for MysqlStore<P> {
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError> {
        let tables = [(self.names.lanes(), "lanes"), (self.names.nodes(), "nodes")];
        self.check_tables(&tables).await?;
        for topic in topics {
            self.prepare_topic(topic).await?;
        }
        Ok(())
    }

    async fn has_ordered_rows(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        self.has_rows_from(topic, 0).await
    }

    async fn look_at_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError> {
        let binds = [Bind::Text(Arc::clone(topic)), Bind::Text(Arc::clone(topic))];
        Ok(LaneView::of(self.connections.poll(Statement::new(&self.lane_texts.look, binds)).await?))
    }

    async fn keep_lanes(&self, keep: &LaneKeep) -> Result<LaneView, StoreError> {
        self.connections.within(self.keep_in_transaction(keep)).await
    }

    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError> {
        let mut entries: Vec<LaneEntry> = Vec::new();
        for (first, group, text) in scan_groups(scans) {
            let nothing = LaneScan { lane: u16::MAX, after: i64::MAX - 1, rows_max: 0 };
            let filled_up = group.iter().copied().chain(iter::repeat(nothing)).take(SCAN_COUNTS[text]);
            let binds: Vec<Bind> = filled_up.flat_map(|scan| scan_binds(topic, scan)).collect();
            let statement = Statement::new(&self.lane_texts.entries[text], binds);
            let found: Vec<EntryRow> = self.connections.load(statement).await?;
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
        let ids = Bind::json(ids.into_iter().map(|id| (id,)));
        let found: Vec<LiveRow> = self.connections.load(Statement::new(&self.lane_texts.rows, [ids])).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.0.key));
        Ok(ours.map(|found| found.0.decode(topic)).collect())
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[InLane<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let by_key: HashMap<RowKey, &Failed> = failed.iter().map(|row| (row.what.held.key, &row.what)).collect();
        let fail = |locked: &[RowKey]| {
            let notes = locked
                .iter()
                .filter_map(|key| by_key.get(key))
                .map(|row| (row.held.key.id, i32::from(row.spends_attempt), row.class, kept_text(&row.error)));
            vec![(&self.lane_texts.fail, vec![Bind::json(notes)])]
        };
        let held = failed.iter().map(|row| (row.what.held, row.fence)).collect();
        self.write_owned(topic, node, held, fail).await
    }

    async fn bury_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[InLane<Dead>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let by_key: HashMap<RowKey, &Dead> = dead.iter().map(|row| (row.what.held.key, &row.what)).collect();
        let bury = |locked: &[RowKey]| {
            let reasons = locked.iter().filter_map(|key| by_key.get(key));
            let reasons = Bind::json(reasons.map(|row| (row.held.key.id, kept_text(&row.reason))));
            let ids = Bind::ids(locked.iter().copied());
            vec![(&self.texts.bury, vec![reasons]), (&self.texts.delete, vec![ids])]
        };
        let held = dead.iter().map(|row| (row.what.held, row.fence)).collect();
        self.write_owned(topic, node, held, bury).await
    }
}

impl<P: Sessions<Mysql>> MysqlStore<P> {
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
            let lanes = Bind::json(0..wanted.lanes);
            unless_written(self.connections.execute(Statement::new(&self.lane_texts.create, [topic(), lanes])).await)?;
        }
        counted(wanted, count_lanes().await?.first().map_or(0, |found| found.0))
    }

    async fn keep_in_transaction(&self, keep: &LaneKeep) -> Result<LaneView, StoreError> {
        let texts = &self.lane_texts;
        let topic = || Bind::Text(Arc::clone(&keep.topic));
        let lease_micros = || Bind::BigInt(micros(keep.lease_duration));
        let mut lease = self.connections.lease().await?;
        lease.begin(begin_write()).await?;
        lease.load::<NumberRow>(Statement::new(&texts.lock, [topic()])).await?;
        lease.execute(Statement::new(&texts.prune, [topic()])).await?;
        if keep.joins {
            lease.execute(Statement::new(&texts.join, [topic(), hex(keep.node), lease_micros()])).await?;
        } else {
            lease.execute(Statement::new(&texts.leave, [topic(), hex(keep.node)])).await?;
        }
        let now = LaneView::of(lease.load(Statement::new(&texts.look, [topic(), topic()])).await?);
        let writes = decide(&now, keep);
        if !writes.is_empty() {
            let group = Bind::json(writes.iter().map(|write| (write.lane, write.fence, write.change as i32)));
            let quiet_micros = Bind::BigInt(micros(keep.quiet_duration));
            let binds = [group, topic(), hex(keep.node), lease_micros(), quiet_micros];
            lease.execute(Statement::new(&texts.write, binds)).await?;
        }
        lease.commit_by(COMMIT.into()).await?;
        lease.give_back();
        Ok(after(now, keep, &writes))
    }

    /// Locks rows with their lanes, where the node owns these, writes what could be locked, and returns that.
    async fn write_owned<'a>(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        mut rows: Vec<(Held, i64)>,
        writes: impl FnOnce(&[RowKey]) -> Vec<Write<'a>> + Send,
    ) -> Result<Vec<RowKey>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        // Locked in the order in which they are named.
        rows.sort_unstable_by_key(|(row, _)| row.key.id);
        let group = Bind::json(
            rows.iter()
                .map(|(row, fence)| (row.key.id, row.key.message_id.as_uuid().simple().to_string(), row.epoch, fence)),
        );
        let topic = || Bind::Text(Arc::clone(topic));
        self.connections
            .within(async {
                let mut lease = self.connections.lease().await?;
                lease.begin(begin_write()).await?;
                let owned: Vec<FenceRow> =
                    lease.load(Statement::new(&self.lane_texts.share_lanes, [topic(), hex(node)])).await?;
                let owned = Bind::json(owned.iter().map(|lane| (lane.lane, lane.fence)));
                let lock = Statement::new(&self.lane_texts.lock_owned, [group, owned, topic()]);
                let locked: Vec<KeyRow> = lease.load(lock).await?;
                let locked: Vec<RowKey> = locked.into_iter().map(|row| row.0).collect();
                if !locked.is_empty() {
                    for (text, binds) in writes(&locked) {
                        lease.execute(Statement::new(text, binds)).await?;
                    }
                }
                lease.commit_by(COMMIT.into()).await?;
                lease.give_back();
                Ok(locked)
            })
            .await
    }
}

fn hex(node: NodeId) -> Bind {
    Bind::Text(node.as_uuid().simple().to_string().into())
}

fn scan_binds(topic: &Arc<str>, scan: LaneScan) -> [Bind; 4] {
    let (lane, after) = (Bind::BigInt(scan.lane.into()), Bind::BigInt(scan.after.max(0)));
    [Bind::Text(Arc::clone(topic)), lane, after, Bind::BigInt(limit(scan.rows_max))]
}

/// A lane that is owned, and its fence.
struct FenceRow {
    lane: i64,
    fence: i64,
}

impl QueryableByName<Mysql> for FenceRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        Ok(Self { lane: row.get_value::<BigInt, _, _>(0)?, fence: row.get_value::<BigInt, _, _>(1)? })
    }
}

struct NumberRow(usize);

impl QueryableByName<Mysql> for NumberRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        row.get_value::<BigInt, _, _>(0).map(count).map(Self)
    }
}

impl QueryableByName<Mysql> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        let owner: Option<Vec<u8>> = row.get_value::<Nullable<Binary>, _, _>(1)?;
        Ok(Self {
            lane: row.get_value::<BigInt, _, _>(0)?,
            owner: owner.map(|id| Uuid::from_slice(&id)).transpose()?.map(NodeId::from),
            fence: row.get_value::<BigInt, _, _>(2)?,
            expires_in: duration(row.get_value::<BigInt, _, _>(3)?),
            quiet_for: duration(row.get_value::<BigInt, _, _>(4)?),
        })
    }
}

struct EntryRow(LaneEntry);

impl QueryableByName<Mysql> for EntryRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> RowResult<Self> {
        Ok(Self(LaneEntry {
            scan: count(row.get_value::<BigInt, _, _>(0)?),
            row: key(row, 1)?,
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            bytes: count(row.get_value::<BigInt, _, _>(4)?),
            age: duration(row.get_value::<BigInt, _, _>(5)?),
            horizon: None,
        }))
    }
}
