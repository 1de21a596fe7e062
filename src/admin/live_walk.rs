use std::sync::Arc;

use crate::limits::{LIVE_RANGES_READ_MAX, LIVE_ROWS_READ_MAX};
use crate::store::{
    AdminStore, LiveConditions, LiveFilter, LiveMessage, LivePosition, LiveRange, LiveScan, LiveState, StoreError,
};

/// Reads live messages of a topic in the order of the index: first those outside of lanes, then lane by lane. What it reads is bounded.
pub(super) struct LiveWalk<'a> {
    store: &'a dyn AdminStore,
    topic: &'a Arc<str>,
    unordered: Option<LiveRange>,
    lanes: WalkedLanes,
    conditions: LiveConditions,
    /// How many more rows may be read for conditions that no index serves.
    rows_left: usize,
    ranges_left: usize,
}

/// The lanes that a walk reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkedLanes {
    None,
    One(u16),
    All,
}

impl<'a> LiveWalk<'a> {
    /// A walk over what a filter selects, except for the state [`Blocked`](LiveState::Blocked). `lanes` are those of the filter's key.
    pub(super) fn new(store: &'a dyn AdminStore, filter: &'a LiveFilter, lanes: WalkedLanes) -> Self {
        let (unordered, lanes) = match filter.state {
            None => (Some(LiveRange::Unordered), lanes),
            Some(LiveState::Due) => (Some(LiveRange::Due), WalkedLanes::None),
            Some(LiveState::Leased | LiveState::Delayed) => (Some(LiveRange::Later), WalkedLanes::None),
            Some(LiveState::Retrying) => (Some(LiveRange::Later), lanes),
            Some(LiveState::InLane | LiveState::Blocked) => (None, lanes),
        };
        Self::of(store, &filter.topic, LiveConditions::of(filter), (unordered, lanes))
    }

    /// A walk over the failed messages in lanes.
    pub(super) fn failed_in_lanes(store: &'a dyn AdminStore, filter: &'a LiveFilter, lanes: WalkedLanes) -> Self {
        let conditions =
            LiveConditions { state: Some(LiveState::Retrying), key: filter.key.clone(), ..LiveConditions::default() };
        Self::of(store, &filter.topic, conditions, (None, lanes))
    }

    /// A walk over one lane.
    pub(super) fn of_lane(
        store: &'a dyn AdminStore,
        topic: &'a Arc<str>,
        lane: u16,
        conditions: LiveConditions,
    ) -> Self {
        Self::of(store, topic, conditions, (None, WalkedLanes::One(lane)))
    }

    fn of(
        store: &'a dyn AdminStore,
        topic: &'a Arc<str>,
        conditions: LiveConditions,
        (unordered, lanes): (Option<LiveRange>, WalkedLanes),
    ) -> Self {
        let (rows_left, ranges_left) = (LIVE_ROWS_READ_MAX, LIVE_RANGES_READ_MAX);
        Self { store, topic, unordered, lanes, conditions, rows_left, ranges_left }
    }

    /// Continues with what another walk may still read.
    pub(super) fn with_rows_left(self, rows_left: Option<usize>) -> Self {
        Self { rows_left: rows_left.unwrap_or(self.rows_left), ..self }
    }

    pub(super) fn rows_left(&self) -> usize {
        self.rows_left
    }

    /// The next messages after `after`, and where to go on if there may be more.
    pub(super) async fn read(
        &mut self,
        mut after: Option<LivePosition>,
        rows_max: usize,
    ) -> Result<(Vec<LiveMessage>, Option<LivePosition>), StoreError> {
        let mut found = Vec::new();
        let mut range = self.range_at(after).await?;
        while let Some(current) = range {
            let Some(ranges_left) = self.ranges_left.checked_sub(1) else {
                return Ok((found, Some(beginning(current))));
            };
            self.ranges_left = ranges_left;
            let rows_max = rows_max - found.len();
            let (rows, next) = self.read_range(current, after.take(), rows_max).await?;
            found.extend(rows);
            if next.is_some() {
                return Ok((found, next));
            }
            range = match current {
                LiveRange::Lane(lane) => self.lane_from(lane.checked_add(1)).await?,
                LiveRange::Unordered | LiveRange::Due | LiveRange::Later => self.lane_from(Some(0)).await?,
            };
        }
        Ok((found, None))
    }

    /// Reads a range up to the bounds; returns where to go on if it was left before its end.
    async fn read_range(
        &mut self,
        range: LiveRange,
        after: Option<LivePosition>,
        rows_max: usize,
    ) -> Result<(Vec<LiveMessage>, Option<LivePosition>), StoreError> {
        let mut scan = LiveScan { topic: Arc::clone(self.topic), range, after, until: None };
        let mut next = None;
        if !self.conditions.is_empty() {
            let Some(end) = self.store.live_scan_end(&scan, self.rows_left).await? else {
                return Ok((Vec::new(), None));
            };
            self.rows_left = self.rows_left.saturating_sub(end.rows);
            next = (self.rows_left == 0).then_some(end.last);
            scan.until = Some(end.last);
        }
        let rows = self.store.live_messages(&scan, &self.conditions, rows_max).await?;
        let last = rows.last().filter(|_| rows.len() == rows_max).map(|row| row.position);
        Ok((rows, last.or(next)))
    }

    /// The range in which a position is, or the first one.
    async fn range_at(&self, after: Option<LivePosition>) -> Result<Option<LiveRange>, StoreError> {
        match (after.and_then(|after| u16::try_from(after.lane).ok()), self.unordered) {
            (None, Some(unordered)) => Ok(Some(unordered)),
            (None, None) => self.lane_from(Some(0)).await,
            (Some(lane), _) if self.lanes == WalkedLanes::All => Ok(Some(LiveRange::Lane(lane))),
            (Some(lane), _) => self.lane_from(Some(lane)).await,
        }
    }

    async fn lane_from(&self, from: Option<u16>) -> Result<Option<LiveRange>, StoreError> {
        let Some(from) = from else { return Ok(None) };
        let lane = match self.lanes {
            WalkedLanes::None => None,
            WalkedLanes::One(lane) => Some(lane).filter(|lane| from <= *lane),
            WalkedLanes::All => self.store.next_lane(self.topic, from).await?,
        };
        Ok(lane.map(LiveRange::Lane))
    }
}

/// Before the first row of a range.
fn beginning(range: LiveRange) -> LivePosition {
    LivePosition { lane: range.lane_column(), due_at: i64::MIN, id: i64::MIN }
}
