//! A row of a lane in flight, and how its lane learns of the outcome.

use std::sync::Arc;

use super::lane::fence_state::FenceState;
use super::lane::ownership::LaneOwnership;
use super::lane::page::KeyHash;
use super::topic::{TopicLanes, Turn};
use crate::clock::BootInstant;
use crate::events::log_event;
use crate::metrics;
use crate::store::RowKey;
use crate::transport::{FailureClass, KeySequence, OutboxRow};

/// A row of a lane on its way to the broker.
#[derive(Debug, Clone)]
pub(crate) struct InFlightRow {
    pub(crate) lanes: Arc<TopicLanes>,
    pub(crate) ownership: LaneOwnership,
    pub(crate) key: KeyHash,
    /// The row's epoch.
    pub(crate) epoch: i32,
    /// On a fenced lane: the sequence of its key that it is sent with.
    pub(crate) sequence: Option<KeySequence>,
    /// On an exactly-once lane: what tells the transport when the row is settled.
    pub(crate) row: Option<OutboxRow>,
}

impl InFlightRow {
    /// The row whose turn it is.
    pub(crate) fn new(lanes: &Arc<TopicLanes>, turn: Turn, epoch: i32) -> Self {
        let Turn { ownership, key, sequence, .. } = turn;
        Self { lanes: Arc::clone(lanes), ownership, key, epoch, sequence, row: None }
    }

    /// The lane's number, if it is one of these lanes, under whichever fence.
    pub(crate) fn lane_of(&self, lanes: &TopicLanes) -> Option<u16> {
        std::ptr::eq(&*self.lanes, lanes).then(|| self.ownership.lane())
    }

    /// The broker has the row.
    pub(crate) fn delivered(&self, row: RowKey) {
        self.lanes.with_lane(self.ownership, |lane| {
            lane.delivered();
            lane.done(self.key, row);
        });
    }

    /// The broker does not have the row, as far as is known. Its treatment follows. Until then no other row of its key
    /// is sent, and none of the lane if its producer is closed.
    pub(crate) fn failed(&self, class: Option<FailureClass>, now: BootInstant) {
        let Some(sequence) = &self.sequence else { return };
        sequence.fail();
        if class == Some(FailureClass::Fenced) && self.lanes.lose(self.ownership, now) {
            self.lanes.topic.counter(metrics::LANE_FENCE_LOST).increment(1);
            log_event!(LANE_FENCED_OUT, topic = %self.lanes.name(), lane = self.ownership.lane());
            return;
        }
        self.lanes.with_lane(self.ownership, |lane| {
            if matches!(&lane.fence_state, FenceState::Fenced { by, .. } if !by.is_open()) {
                lane.unfence(now);
            }
        });
    }

    pub(crate) fn done(&self, row: RowKey) {
        self.lanes.with_lane(self.ownership, |lane| lane.done(self.key, row));
    }

    pub(crate) fn requeue(&self, row: RowKey) {
        self.lanes.with_lane(self.ownership, |lane| lane.requeue(self.key, row));
    }

    pub(crate) fn block(&self, row: RowKey, until: BootInstant) {
        self.lanes.with_lane(self.ownership, |lane| lane.block(self.key, row, until));
    }
}
