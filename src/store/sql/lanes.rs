use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::SqlStore;
use super::database::Database;
use super::dialect::{Bind, Statement};
use super::row_batch::{Column, RowBatch, sorted_by_id};
use super::rows::Read;
use crate::lane::NodeId;
use crate::store::decode::RawRow;
use crate::store::lane_check::{check_existing_rows, check_lane_count};
use crate::store::lanes::{LaneViewRow, apply_writes, plan_balance};
use crate::store::pool::{ConnectionPool, PoolConnection, Session, ignore_unique_violation};
use crate::store::sql::statements::Sql;
use crate::store::stored::truncated_text;
use crate::store::{
    Failed, LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneStore, LaneView, Loaded, NewDeadLetter, RowKey,
    StoreError, WithFence,
};

#[async_trait]
impl<DB: Database, P: ConnectionPool<DB>> LaneStore for SqlStore<DB, P> {
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError> {
        self.check_tables(&["lanes", "nodes"]).await?;
        for topic in topics {
            self.prepare_topic(topic).await?;
        }
        Ok(())
    }

    async fn has_ordered_rows(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        self.has_rows_from(topic, 0).await
    }

    async fn lane_counts(&self) -> Result<Vec<LaneCount>, StoreError> {
        self.check_tables(&["lanes"]).await?;
        let mut counts: Vec<LaneCount> = self.read(&self.sql.lanes.topics, []).await?;
        // Databases sort texts in their own ways.
        counts.sort_by(|one, other| one.topic.cmp(&other.topic));
        Ok(counts)
    }

    async fn read_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError> {
        let statement = Statement::new(&self.sql.lanes.read, [Bind::text(topic)]);
        Ok(view(self.executor.poll(statement).await?))
    }

    async fn balance_lanes(&self, spec: &LaneBalanceSpec) -> Result<LaneView, StoreError> {
        let (sql, spec) = (Arc::clone(&self.sql), spec.clone());
        self.transaction(|conn| Box::pin(balance(conn, sql, spec))).await
    }

    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError> {
        if scans.is_empty() {
            return Ok(Vec::new());
        }
        DB::lane_entries(self, topic, scans).await
    }

    async fn lane_rows(&self, topic: &Arc<str>, rows: &[RowKey]) -> Result<Vec<Loaded>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let wanted: HashSet<RowKey> = rows.iter().copied().collect();
        let ids: HashSet<i64> = rows.iter().map(|row| row.id).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let found: Vec<RawRow> = self.read(&self.sql.lane_rows.rows, [DB::rows(&ids)]).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.key));
        Ok(ours.map(|found| found.decode(topic)).collect())
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[WithFence<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let failed = sorted_by_id(failed, |row| row.value.held.key);
        let batch = RowBatch::held(failed.iter().map(|row| row.value.held))
            .numbers(failed.iter().map(|row| row.fence))
            .ints(failed.iter().map(|row| i32::from(row.value.spends_attempt)))
            .texts(failed.iter().map(|row| row.value.class.to_owned()))
            .texts(failed.iter().map(|row| truncated_text(&row.value.error)));
        if batch.rows.is_empty() {
            return Ok(Vec::new());
        }
        DB::write_owned(self, &self.sql.lane_rows.fail_in_lanes, (topic, node), batch).await
    }

    async fn dead_letter_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[WithFence<NewDeadLetter>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let dead = sorted_by_id(dead, |row| row.value.held.key);
        let batch = RowBatch::held(dead.iter().map(|row| row.value.held))
            .numbers(dead.iter().map(|row| row.fence))
            .texts(dead.iter().map(|row| truncated_text(&row.value.reason)));
        if batch.rows.is_empty() {
            return Ok(Vec::new());
        }
        DB::write_owned(self, &self.sql.lane_rows.dead_letter_from_lanes, (topic, node), batch).await
    }
}

impl<DB: Database, P: ConnectionPool<DB>> SqlStore<DB, P> {
    /// Whether a topic has rows in this lane or a higher one.
    async fn has_rows_from(&self, topic: &Arc<str>, lane: u16) -> Result<bool, StoreError> {
        let binds = [Bind::text(topic), Bind::Number(lane.into())];
        let found: Vec<usize> = self.read(&self.sql.lanes.first_from, binds).await?;
        Ok(!found.is_empty())
    }

    async fn prepare_topic(&self, wanted: &LaneCount) -> Result<(), StoreError> {
        let topic = || Bind::text(&wanted.topic);
        let count_lanes = || self.read::<usize>(&self.sql.lanes.count, [topic()]);
        if count_lanes().await?.iter().all(|found| *found == 0) {
            check_existing_rows(self, wanted, self.has_rows_from(&wanted.topic, wanted.lanes).await?).await?;
            let lanes: Vec<i64> = (0..wanted.lanes).map(i64::from).collect();
            ignore_unique_violation(self.execute(&self.sql.lanes.create, [topic(), DB::rows(&lanes)]).await)?;
        }
        check_lane_count(wanted, count_lanes().await?.first().copied().unwrap_or_default())
    }
}

async fn balance<DB: Database, S: Session<DB>>(
    conn: &mut PoolConnection<DB, S>,
    sql: Arc<Sql>,
    spec: LaneBalanceSpec,
) -> Result<LaneView, StoreError> {
    let sql = &sql.lanes;
    let [topic, node] = [Bind::text(&spec.topic), DB::id(spec.node.as_uuid())];
    let [lasts, quiet] = [spec.lease_duration, spec.quiet_duration].map(|time| Bind::Number(DB::duration(time)));
    let one = || vec![topic.clone()];
    // A database with one lock for all writes has no row locks.
    if !sql.lock.steps().is_empty() {
        conn.load::<Read<()>>(Statement::new(&sql.lock, one())).await?;
    }
    conn.execute(Statement::new(&sql.prune, one())).await?;
    if spec.joins {
        conn.execute(Statement::new(&sql.join, [topic.clone(), node.clone(), lasts.clone()])).await?;
    } else {
        conn.execute(Statement::new(&sql.leave, [topic.clone(), node.clone()])).await?;
    }
    let now = view(conn.load(Statement::new(&sql.read, one())).await?);
    let writes = plan_balance(&now, &spec);
    if !writes.is_empty() {
        let batch = DB::columns(&[
            Column::Ints(writes.iter().map(|write| i32::from(write.lane)).collect()),
            Column::Numbers(writes.iter().map(|write| write.fence).collect()),
            Column::Ints(writes.iter().map(|write| write.change as i32).collect()),
        ]);
        let binds: Vec<_> = [topic, node].into_iter().chain(batch).chain([lasts, quiet]).collect();
        conn.execute(Statement::new(&sql.write, binds)).await?;
    }
    Ok(apply_writes(now, &spec, &writes))
}

fn view(rows: Vec<Read<LaneViewRow>>) -> LaneView {
    LaneView::of(rows.into_iter().map(|row| row.0))
}
