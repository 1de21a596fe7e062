use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use super::faults::Call;
use crate::lane::NodeId;
use crate::store::{
    Failed, LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneStore, LaneView, Loaded, NewDeadLetter, RowKey,
    StoreError, WithFence,
};

#[async_trait]
impl LaneStore for MemoryStore {
    async fn prepare_lanes(&self, topics: &[LaneCount]) -> Result<(), StoreError> {
        self.call(Call::PrepareLanes, |state| topics.iter().try_for_each(|topic| state.prepare_lanes(topic))).await?
    }

    async fn has_ordered_rows(&self, topic: &Arc<str>) -> Result<bool, StoreError> {
        self.call(Call::PrepareLanes, |state| state.has_ordered_rows(topic)).await
    }

    async fn lane_counts(&self) -> Result<Vec<LaneCount>, StoreError> {
        self.call(Call::ReadLanes, |state| state.lane_counts()).await
    }

    async fn read_lanes(&self, topic: &Arc<str>) -> Result<LaneView, StoreError> {
        self.call(Call::ReadLanes, |state| state.read_lanes(topic)).await
    }

    async fn balance_lanes(&self, spec: &LaneBalanceSpec) -> Result<LaneView, StoreError> {
        self.call(Call::BalanceLanes, |state| state.balance_lanes(spec)).await
    }

    async fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Result<Vec<LaneEntry>, StoreError> {
        self.call(Call::LaneEntries, |state| state.lane_entries(topic, scans)).await
    }

    async fn lane_rows(&self, _topic: &Arc<str>, rows: &[RowKey]) -> Result<Vec<Loaded>, StoreError> {
        self.call(Call::LaneRows, |state| state.lane_rows(rows)).await
    }

    async fn fail_in_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[WithFence<Failed>],
    ) -> Result<Vec<RowKey>, StoreError> {
        self.call(Call::FailInLanes, |state| state.fail_in_lanes(topic, node, failed)).await
    }

    async fn dead_letter_from_lanes(
        &self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[WithFence<NewDeadLetter>],
    ) -> Result<Vec<RowKey>, StoreError> {
        self.call(Call::DeadLetterFromLanes, |state| state.dead_letter_from_lanes(topic, node, dead)).await
    }
}
