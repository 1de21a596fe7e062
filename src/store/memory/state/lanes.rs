use std::sync::Arc;
use std::time::Duration;

use super::{Lane, MemoryRow, Micros, State};
use crate::lane::NodeId;
use crate::store::lane_check::{check_lane_count, check_lanes_of_keys};
use crate::store::lanes::{LaneChange, plan_balance};
use crate::store::{
    Failed, Held, Horizon, LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneState, LaneView, Loaded, NewDeadLetter,
    RowKey, StoreError, WithFence,
};

impl State {
    pub(in crate::store::memory) fn prepare_lanes(&mut self, wanted: &LaneCount) -> Result<(), StoreError> {
        let count = |state: &Self| state.lanes.lanes.keys().filter(|(topic, _)| *topic == wanted.topic).count();
        if count(self) == 0 {
            let rows = self.rows.values().filter(|row| row.envelope.topic == wanted.topic);
            let keys = rows.filter_map(|row| Some((row.lane?, row.envelope.key.as_deref())));
            check_lanes_of_keys(wanted, keys)?;
            for lane in 0..wanted.lanes {
                let never = Lane { owner: None, fence: 0, expires_at: Micros(0), quiet_until: Micros(0) };
                self.lanes.lanes.insert((Arc::clone(&wanted.topic), lane), never);
            }
        }
        check_lane_count(wanted, count(self))
    }

    pub(in crate::store::memory) fn has_ordered_rows(&self, topic: &Arc<str>) -> bool {
        self.rows.values().any(|row| row.envelope.topic == *topic && row.lane.is_some())
    }

    pub(in crate::store::memory) fn lane_counts(&self) -> Vec<LaneCount> {
        let mut counts: Vec<LaneCount> = Vec::new();
        // By topic, then by lane.
        for (topic, _) in self.lanes.lanes.keys() {
            match counts.last_mut().filter(|last| last.topic == *topic) {
                Some(last) => last.lanes += 1,
                None => counts.push(LaneCount { topic: Arc::clone(topic), lanes: 1 }),
            }
        }
        counts
    }

    pub(in crate::store::memory) fn read_lanes(&self, topic: &Arc<str>) -> LaneView {
        let now = self.clock.now();
        let lanes = self.lanes.lanes.iter().filter(|((of, _), _)| of == topic);
        let nodes = self.lanes.nodes.iter().filter(|((of, _), expires_at)| of == topic && **expires_at > now);
        LaneView {
            lanes: lanes
                .map(|((_, number), lane)| LaneState {
                    lane: *number,
                    owner: lane.owner,
                    fence: lane.fence,
                    expires_in: now.until(lane.expires_at),
                    quiet_for: now.until(lane.quiet_until),
                })
                .collect(),
            nodes: nodes.map(|((_, node), _)| *node).collect(),
        }
    }

    pub(in crate::store::memory) fn balance_lanes(&mut self, spec: &LaneBalanceSpec) -> LaneView {
        let now = self.clock.now();
        let expires_at = now.plus(spec.lease_duration);
        self.lanes.nodes.retain(|_, expires_at| *expires_at > now);
        if spec.joins {
            self.lanes.nodes.insert((Arc::clone(&spec.topic), spec.node), expires_at);
        } else {
            self.lanes.nodes.remove(&(Arc::clone(&spec.topic), spec.node));
        }
        for write in plan_balance(&self.read_lanes(&spec.topic), spec) {
            let place = (Arc::clone(&spec.topic), write.lane);
            let Some(lane) = self.lanes.lanes.get_mut(&place) else { continue };
            let is_released = write.change == LaneChange::Release;
            lane.fence = write.fence;
            lane.owner = (!is_released).then_some(spec.node);
            lane.expires_at = if is_released { now } else { expires_at };
            if write.change == LaneChange::TakeOver {
                lane.quiet_until = now.plus(spec.quiet_duration);
            }
        }
        self.read_lanes(&spec.topic)
    }

    pub(in crate::store::memory) fn lane_entries(&self, topic: &Arc<str>, scans: &[LaneScan]) -> Vec<LaneEntry> {
        let now = self.clock.now().as_system_time();
        // A transaction has the number of its row.
        let begun_below = (self.last_id + 1).cast_unsigned();
        let ended_below = self.open.first().map_or(begun_below, |first| first.cast_unsigned());
        let of_scan = |(place, scan): (usize, &LaneScan)| {
            let (lane, after) = (Some(scan.lane), scan.after);
            let rows = self.rows.values().filter(move |row| row.lane == lane && row.envelope.topic == *topic);
            let entry = move |row: &MemoryRow| LaneEntry {
                scan: place,
                row: row.key,
                key: row.envelope.key.clone(),
                bytes: row.envelope.payload.as_ref().map_or(0, Vec::len),
                // A requeued message has a new row id, younger than its `created_at`.
                age: match row.epoch {
                    0 => now.duration_since(row.envelope.created_at).unwrap_or_default(),
                    _ => Duration::ZERO,
                },
                horizon: Some(Horizon { ended_below, begun_below }),
            };
            rows.filter(move |row| row.key.id > after).take(scan.rows_max).map(entry)
        };
        scans.iter().enumerate().flat_map(of_scan).collect()
    }

    pub(in crate::store::memory) fn lane_rows(&self, rows: &[RowKey]) -> Vec<Loaded> {
        let mut found: Vec<_> = rows.iter().filter_map(|row| self.row(*row)).filter(|row| row.lane.is_some()).collect();
        found.sort_unstable_by_key(|row| row.key.id);
        found.into_iter().map(MemoryRow::load).collect()
    }

    pub(in crate::store::memory) fn fail_in_lanes(
        &mut self,
        topic: &Arc<str>,
        node: NodeId,
        failed: &[WithFence<Failed>],
    ) -> Vec<RowKey> {
        let owned = failed.iter().filter(|row| self.is_owned(topic, node, row.value.held, row.fence));
        let owned: Vec<Failed> = owned.map(|row| row.value.clone()).collect();
        let noted = self.fail(&owned);
        for row in &noted {
            if let Some(row) = self.row_mut(*row) {
                row.due_at = Micros(0);
            }
        }
        noted
    }

    pub(in crate::store::memory) fn dead_letter_from_lanes(
        &mut self,
        topic: &Arc<str>,
        node: NodeId,
        dead: &[WithFence<NewDeadLetter>],
    ) -> Vec<RowKey> {
        let owned = dead.iter().filter(|row| self.is_owned(topic, node, row.value.held, row.fence));
        let owned: Vec<NewDeadLetter> = owned.map(|row| row.value.clone()).collect();
        self.dead_letter(&owned)
    }

    fn is_owned(&self, topic: &Arc<str>, node: NodeId, held: Held, fence: i64) -> bool {
        let lane = self.row(held.key).and_then(|row| row.lane);
        let lane = lane.and_then(|lane| self.lanes.lanes.get(&(Arc::clone(topic), lane)));
        lane.is_some_and(|lane| lane.owner == Some(node) && lane.fence == fence && lane.expires_at > self.clock.now())
    }
}
