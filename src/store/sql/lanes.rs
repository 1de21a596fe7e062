use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::SqlStore;
use super::flows::Flows;
use super::group::{Column, Group, ascending};
use super::rows::Read;
use crate::lane::NodeId;
use crate::store::decode::RawRow;
use crate::store::lane_check::{counted, fitting};
use crate::store::lanes::{LookRow, after, decide};
use crate::store::session::{Lease, Session, Sessions, unless_written};
use crate::store::sql::statements::Texts;
use crate::store::statement::{Bind, Statement};
use crate::store::stored::kept_text;
use crate::store::{
    Dead, Failed, InLane, LaneCount, LaneEntry, LaneKeep, LaneScan, LaneStore, LaneView, Loaded, RowKey, StoreError,
};

#[async_trait]
impl<DB: Flows, P: Sessions<DB>> LaneStore for SqlStore<DB, P> {
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

    async fn look_at_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError> {
        let statement = Statement::new(&self.texts.lanes.look, [Bind::text(topic)]);
        Ok(view(self.calls.poll(statement).await?))
    }

    async fn keep_lanes(&self, keep: &LaneKeep) -> Result<LaneView, StoreError> {
        let (texts, keep) = (Arc::clone(&self.texts), keep.clone());
        self.transact(|lease| Box::pin(keep_on(lease, texts, keep))).await
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
        let found: Vec<RawRow> = self.read(&self.texts.lane_rows.rows, [DB::rows(&ids)]).await?;
        let ours = found.into_iter().filter(|found| wanted.contains(&found.key));
        Ok(ours.map(|found| found.decode(topic)).collect())
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[InLane<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let failed = ascending(failed, |row| row.what.held.key);
        let group = Group::held(failed.iter().map(|row| row.what.held))
            .numbers(failed.iter().map(|row| row.fence))
            .ints(failed.iter().map(|row| i32::from(row.what.spends_attempt)))
            .texts(failed.iter().map(|row| row.what.class.to_owned()))
            .texts(failed.iter().map(|row| kept_text(&row.what.error)));
        if group.rows.is_empty() {
            return Ok(Vec::new());
        }
        DB::write_owned(self, &self.texts.lane_rows.fail_in_lanes, (topic, node), group).await
    }

    async fn bury_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[InLane<Dead>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let dead = ascending(dead, |row| row.what.held.key);
        let group = Group::held(dead.iter().map(|row| row.what.held))
            .numbers(dead.iter().map(|row| row.fence))
            .texts(dead.iter().map(|row| kept_text(&row.what.reason)));
        if group.rows.is_empty() {
            return Ok(Vec::new());
        }
        DB::write_owned(self, &self.texts.lane_rows.bury_from_lanes, (topic, node), group).await
    }
}

impl<DB: Flows, P: Sessions<DB>> SqlStore<DB, P> {
    /// Whether rows of a topic are in a lane from this one on.
    async fn has_rows_from(&self, topic: &Arc<str>, lane: u16) -> Result<bool, StoreError> {
        let binds = [Bind::text(topic), Bind::Number(lane.into())];
        let found: Vec<usize> = self.read(&self.texts.lanes.first_from, binds).await?;
        Ok(!found.is_empty())
    }

    async fn prepare_topic(&self, wanted: &LaneCount) -> Result<(), StoreError> {
        let topic = || Bind::text(&wanted.topic);
        let count_lanes = || self.read::<usize>(&self.texts.lanes.count, [topic()]);
        if count_lanes().await?.iter().all(|found| *found == 0) {
            fitting(self, wanted, self.has_rows_from(&wanted.topic, wanted.lanes).await?).await?;
            let lanes: Vec<i64> = (0..wanted.lanes).map(i64::from).collect();
            unless_written(self.execute(&self.texts.lanes.create, [topic(), DB::rows(&lanes)]).await)?;
        }
        counted(wanted, count_lanes().await?.first().copied().unwrap_or_default())
    }
}

async fn keep_on<DB: Flows, S: Session<DB>>(
    lease: &mut Lease<DB, S>,
    texts: Arc<Texts>,
    keep: LaneKeep,
) -> Result<LaneView, StoreError> {
    let texts = &texts.lanes;
    let [topic, node] = [Bind::text(&keep.topic), DB::id(keep.node.as_uuid())];
    let [lasts, quiet] = [keep.lease_duration, keep.quiet_duration].map(|time| Bind::Number(DB::span(time)));
    let one = || vec![topic.clone()];
    // Where a transaction takes the one lock of the database there are none of rows.
    if !texts.lock.steps().is_empty() {
        lease.load::<Read<()>>(Statement::new(&texts.lock, one())).await?;
    }
    lease.execute(Statement::new(&texts.prune, one())).await?;
    if keep.joins {
        lease.execute(Statement::new(&texts.join, [topic.clone(), node.clone(), lasts.clone()])).await?;
    } else {
        lease.execute(Statement::new(&texts.leave, [topic.clone(), node.clone()])).await?;
    }
    let now = view(lease.load(Statement::new(&texts.look, one())).await?);
    let writes = decide(&now, &keep);
    if !writes.is_empty() {
        let group = DB::columns(&[
            Column::Ints(writes.iter().map(|write| i32::from(write.lane)).collect()),
            Column::Numbers(writes.iter().map(|write| write.fence).collect()),
            Column::Ints(writes.iter().map(|write| write.change as i32).collect()),
        ]);
        let binds: Vec<_> = [topic, node].into_iter().chain(group).chain([lasts, quiet]).collect();
        lease.execute(Statement::new(&texts.write, binds)).await?;
    }
    Ok(after(now, &keep, &writes))
}

fn view(rows: Vec<Read<LookRow>>) -> LaneView {
    LaneView::of(rows.into_iter().map(|row| row.0))
}
