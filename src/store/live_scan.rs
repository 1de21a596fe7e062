//! How a store reads live messages: ranges of the index of due rows, each with a bounded number of rows.

use std::sync::Arc;
use std::time::SystemTime;

use super::live::{LiveFilter, LivePosition, LiveState};
use crate::lane::lane_column;

/// A range of the index of a topic's due rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveRange {
    /// Every row outside of lanes.
    Unordered,
    /// Rows outside of lanes that are due.
    Due,
    /// Rows outside of lanes that are not due yet.
    Later,
    /// The rows of a lane.
    Lane(u16),
}

impl LiveRange {
    /// The lane as the column has it.
    pub(crate) fn lane_column(self) -> i32 {
        lane_column(match self {
            Self::Unordered | Self::Due | Self::Later => None,
            Self::Lane(lane) => Some(lane),
        })
    }
}

/// Rows of a range: those after one position, up to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveScan {
    /// The topic.
    pub topic: Arc<str>,
    /// The range.
    pub range: LiveRange,
    /// Where the scan begins: after this row.
    pub after: Option<LivePosition>,
    /// Where it ends: at this row.
    pub until: Option<LivePosition>,
}

/// Conditions that no index serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveConditions {
    /// Only rows in this state: leased, delayed or retrying, or in a lane and not failed.
    pub state: Option<LiveState>,
    /// Only of this key.
    pub key: Option<Arc<str>>,
    /// Only of this kind.
    pub kind: Option<Arc<str>>,
    /// Only with this header, as the column has it: `["name","value"]`.
    pub header: Option<Arc<str>>,
}

impl LiveConditions {
    /// What of a filter is left to check on the rows of a range.
    pub(crate) fn of(filter: &LiveFilter) -> Self {
        let header = filter.header.as_ref().map(|(name, value)| {
            let column = serde_json::to_string(&(&**name, &**value));
            column.unwrap_or_else(|error| unreachable!("strings always encode as JSON: {error}")).into()
        });
        let state = filter.state.filter(|state| !matches!(state, LiveState::Due | LiveState::Blocked));
        Self { state, key: filter.key.clone(), kind: filter.kind.clone(), header }
    }

    /// Whether every row of a range meets them.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The end of a scan that was bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveScanEnd {
    /// How many rows there are.
    pub rows: usize,
    /// The last of them.
    pub last: LivePosition,
}

/// A row of a lane and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInLane {
    /// The topic.
    pub topic: Arc<str>,
    /// The lane.
    pub lane: u16,
    /// The key.
    pub key: Arc<str>,
    /// The row.
    pub id: i64,
}

/// What stands around a row in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyNeighbours {
    /// Whether an earlier row of the key has failed.
    pub failed_before: bool,
    /// Rows of the key behind it.
    pub behind: usize,
    /// Whether there are rows behind those that were read.
    pub more: bool,
}

/// The columns that tell a row's state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateColumns {
    pub(crate) is_in_lane: bool,
    pub(crate) is_due: bool,
    pub(crate) epoch: i32,
    pub(crate) failures: u32,
    pub(crate) deliver_at: Option<SystemTime>,
}

impl StateColumns {
    /// The state, as the conditions of the SQL stores tell it, too.
    pub(crate) fn state(self) -> LiveState {
        let Self { is_in_lane, is_due, epoch, failures, deliver_at } = self;
        if is_in_lane {
            return if failures > 0 { LiveState::Retrying } else { LiveState::InLane };
        }
        if is_due {
            LiveState::Due
        } else if epoch == 0 && deliver_at.is_some() {
            LiveState::Delayed
        } else if failures > 0 {
            LiveState::Retrying
        } else {
            LiveState::Leased
        }
    }
}
