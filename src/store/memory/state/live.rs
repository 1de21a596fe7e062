use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use super::admin::failed_attempts;
use super::{MemoryRow, Micros, State};
use crate::lane::lane_column;
use crate::message::MessageId;
use crate::store::{
    BoundedCount, KeyInLane, KeyNeighbours, LiveConditions, LiveCount, LiveMessage, LivePosition, LiveRange, LiveScan,
    LiveScanEnd, LiveState, StateColumns,
};

impl MemoryRow {
    fn position(&self) -> LivePosition {
        LivePosition { lane: lane_column(self.lane), due_at: self.due_at.0, id: self.key.id }
    }

    fn live_state(&self, now: Micros) -> LiveState {
        let columns = StateColumns {
            is_in_lane: self.lane.is_some(),
            is_due: self.due_at <= now,
            epoch: self.epoch,
            failures: self.failures,
            deliver_at: self.envelope.deliver_at,
        };
        columns.state()
    }

    fn to_live_message(&self, now: Micros) -> LiveMessage {
        let state = self.live_state(now);
        let due_at = self.lane.is_none().then(|| self.due_at.as_system_time());
        LiveMessage {
            id: self.key.id,
            message_id: self.key.message_id,
            topic: Arc::clone(&self.envelope.topic),
            state,
            lane: self.lane,
            key: self.envelope.key.clone(),
            kind: self.envelope.kind.clone(),
            headers_json: self.envelope.headers.to_json(),
            payload: self.envelope.payload.clone(),
            created_at: self.envelope.created_at,
            due_at,
            deliver_at: self.envelope.deliver_at,
            attempts: self.attempts,
            failures: self.failures,
            errors: failed_attempts(&self.errors),
            owner: None,
            leased_until: due_at.filter(|_| state == LiveState::Leased),
            position: self.position(),
        }
    }

    fn meets(&self, conditions: &LiveConditions, now: Micros) -> bool {
        let LiveConditions { state, key, kind, header } = conditions;
        let envelope = &self.envelope;
        state.is_none_or(|state| self.live_state(now) == state)
            && key.as_ref().is_none_or(|key| envelope.key.as_deref() == Some(&**key))
            && kind.as_ref().is_none_or(|kind| envelope.kind == **kind)
            && header.as_ref().is_none_or(|header| envelope.headers.to_json().contains(&**header))
    }
}

impl State {
    /// The rows of a scan, in the order of the index.
    fn scanned(&self, scan: &LiveScan) -> Vec<&MemoryRow> {
        let now = self.clock.now();
        let is_in_range = |row: &&MemoryRow| match scan.range {
            LiveRange::Unordered => row.lane.is_none(),
            LiveRange::Due => row.lane.is_none() && row.due_at <= now,
            LiveRange::Later => row.lane.is_none() && row.due_at > now,
            LiveRange::Lane(lane) => row.lane == Some(lane),
        };
        let of_topic = self.rows.values().filter(|row| row.envelope.topic == scan.topic);
        let mut rows: Vec<&MemoryRow> = of_topic.filter(is_in_range).collect();
        rows.retain(|row| scan.after.is_none_or(|after| (row.due_at.0, row.key.id) > (after.due_at, after.id)));
        rows.retain(|row| scan.until.is_none_or(|until| (row.due_at.0, row.key.id) <= (until.due_at, until.id)));
        rows.sort_by_key(|row| row.position());
        rows
    }

    pub(in crate::store::memory) fn live_messages(
        &self,
        scan: &LiveScan,
        conditions: &LiveConditions,
        rows_max: usize,
    ) -> Vec<LiveMessage> {
        let now = self.clock.now();
        let found = self.scanned(scan).into_iter().filter(|row| row.meets(conditions, now));
        found.take(rows_max).map(|row| row.to_live_message(now)).collect()
    }

    pub(in crate::store::memory) fn live_scan_end(&self, scan: &LiveScan, rows_max: usize) -> Option<LiveScanEnd> {
        let mut rows = self.scanned(scan);
        rows.truncate(rows_max);
        Some(LiveScanEnd { rows: rows.len(), last: rows.last()?.position() })
    }

    pub(in crate::store::memory) fn find_live(&self, message: MessageId) -> Option<LiveMessage> {
        let row = self.ids.get(&message).and_then(|id| self.rows.get(id))?;
        Some(row.to_live_message(self.clock.now()))
    }

    pub(in crate::store::memory) fn next_lane(&self, topic: &Arc<str>, from: u16) -> Option<u16> {
        let lanes = self.rows.values().filter(|row| row.envelope.topic == *topic).filter_map(|row| row.lane);
        lanes.filter(|lane| *lane >= from).min()
    }

    pub(in crate::store::memory) fn key_neighbours(&self, of: &KeyInLane, rows_max: usize) -> KeyNeighbours {
        let is_same = |row: &&MemoryRow| row.envelope.key.as_deref() == Some(&*of.key);
        let in_lane = |row: &&MemoryRow| row.envelope.topic == of.topic && row.lane == Some(of.lane);
        let before = self.rows.range(..of.id).rev().map(|(_, row)| row).filter(in_lane).take(rows_max);
        let behind: Vec<&MemoryRow> =
            self.rows.values().filter(|row| row.key.id > of.id).filter(in_lane).take(rows_max).collect();
        KeyNeighbours {
            failed_before: before.filter(is_same).any(|row| row.failures > 0),
            more: behind.len() >= rows_max,
            behind: behind.into_iter().filter(is_same).count(),
        }
    }

    pub(in crate::store::memory) fn count_live(&self, topic: &Arc<str>, count_max: usize) -> LiveCount {
        let now = self.clock.now();
        let scan = |range| LiveScan { topic: Arc::clone(topic), range, after: None, until: None };
        let read = |range| self.scanned(&scan(range)).into_iter().take(count_max).collect::<Vec<_>>();
        let (due, later) = (read(LiveRange::Due), read(LiveRange::Later));
        let of_topic = self.rows.values().filter(|row| row.envelope.topic == *topic && row.lane.is_some());
        let mut in_lanes: Vec<&MemoryRow> = of_topic.collect();
        in_lanes.sort_by_key(|row| row.position());
        in_lanes.truncate(count_max);
        let count = |rows: &[&MemoryRow], state| rows.iter().filter(|row| row.live_state(now) == state).count();
        let of = |rows: &[&MemoryRow], state| BoundedCount { count: count(rows, state), more: rows.len() >= count_max };
        let (waits, failed) = (of(&later, LiveState::Retrying), of(&in_lanes, LiveState::Retrying));
        LiveCount {
            due: of(&due, LiveState::Due),
            leased: of(&later, LiveState::Leased),
            delayed: of(&later, LiveState::Delayed),
            retrying: BoundedCount { count: waits.count + failed.count, more: waits.more || failed.more },
            in_lanes: of(&in_lanes, LiveState::InLane),
        }
    }

    pub(in crate::store::memory) fn count_due(
        &self,
        topic: &Arc<str>,
        from: SystemTime,
        before: SystemTime,
        count_max: usize,
    ) -> usize {
        let period = from..before;
        let of_topic = self.rows.values().filter(|row| row.envelope.topic == *topic && row.lane.is_none());
        of_topic.filter(|row| period.contains(&row.due_at.as_system_time())).take(count_max).count()
    }

    pub(in crate::store::memory) fn live_topics(&self, topics_max: usize) -> Vec<Arc<str>> {
        let topics: BTreeSet<&Arc<str>> = self.rows.values().map(|row| &row.envelope.topic).collect();
        topics.into_iter().take(topics_max).cloned().collect()
    }
}
