//! The calls for ordered topics.

use std::sync::Arc;

use async_trait::async_trait;

use super::Measured;
use super::timer::Statement;
use crate::lane::NodeId;
use crate::store::{
    Failed, LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneStore, LaneView, Loaded, NewDeadLetter, RowKey,
    StoreError, WithFence,
};

#[async_trait]
impl LaneStore for Measured {
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError> {
        self.timer.time(Statement::PrepareLanes, self.store.lanes().prepare_lanes(topics)).await
    }

    async fn has_ordered_rows(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        self.timer.time(Statement::HasOrderedRows, self.store.lanes().has_ordered_rows(topic)).await
    }

    async fn lane_counts(&self) -> Result<Vec<LaneCount>, StoreError> {
        self.store.lanes().lane_counts().await
    }

    async fn read_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError> {
        self.timer.time(Statement::ReadLanes, self.store.lanes().read_lanes(topic)).await
    }

    async fn balance_lanes(&self, spec: &LaneBalanceSpec) -> Result<LaneView, StoreError> {
        self.timer.time(Statement::BalanceLanes, self.store.lanes().balance_lanes(spec)).await
    }

    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError> {
        self.timer.time(Statement::LaneEntries, self.store.lanes().lane_entries(topic, scans)).await
    }

    async fn lane_rows(&self, topic: &Arc<str>, rows: &[RowKey]) -> Result<Vec<Loaded>, StoreError> {
        self.timer.time(Statement::LaneRows, self.store.lanes().lane_rows(topic, rows)).await
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[WithFence<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::FailInLanes, self.store.lanes().fail_in_lanes(topic, node, failed)).await
    }

    async fn dead_letter_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[WithFence<NewDeadLetter>],
    ) -> Result<Vec<RowKey>, StoreError> {
        let call = self.store.lanes().dead_letter_from_lanes(topic, node, dead);
        self.timer.time(Statement::DeadLetterFromLanes, call).await
    }
}
