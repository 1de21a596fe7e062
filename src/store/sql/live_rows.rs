//! Live messages and their counts, read from rows.

use diesel::deserialize::Result;
use diesel::row::NamedRow;

use super::admin_rows::{counter, lane};
use super::dialect::count;
use super::read_value::Columns;
use super::rows::FromRow;
use super::search::failed_attempts;
use crate::store::{
    BoundedCount, KeyNeighbours, LiveCount, LiveMessage, LivePosition, LiveScanEnd, LiveState, StateColumns,
};

/// `id, message_id, topic, lane, key, kind, headers, payload, created_at, due_at, deliver_at, epoch, attempts, failures, errors`, and
/// whether it is due.
impl FromRow for LiveMessage {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let (id, lane_column, lane) = (DB::number(row, 0)?, DB::lane(row, 3)?, lane::<DB>(row, 3)?);
        let due_at = DB::raw_instant(row, 9)?;
        let deliver_at = DB::optional_raw_instant(row, 10)?.map(DB::at).transpose()?;
        let (attempts, failures) = (counter::<DB>(row, 12)?, counter::<DB>(row, 13)?);
        let is_due = DB::number(row, 15)? != 0;
        let epoch = DB::int(row, 11)?;
        let state = StateColumns { is_in_lane: lane.is_some(), is_due, epoch, failures, deliver_at }.state();
        let due = if lane.is_some() { None } else { Some(DB::at(due_at)?) };
        Ok(Self {
            id,
            message_id: DB::message_id(row, 1)?,
            topic: DB::text(row, 2)?.into(),
            state,
            lane,
            key: DB::optional_text(row, 4)?,
            kind: DB::text(row, 5)?,
            headers_json: DB::text(row, 6)?,
            payload: DB::bytes(row, 7)?,
            created_at: DB::instant(row, 8)?,
            due_at: due,
            deliver_at,
            attempts,
            failures,
            errors: failed_attempts(&DB::text(row, 14)?),
            owner: None,
            leased_until: due.filter(|_| state == LiveState::Leased),
            position: LivePosition { lane: lane_column, due_at, id },
        })
    }
}

/// How many rows, and the `due_at` and the row id of the last; its lane is that of the scan.
impl FromRow for LiveScanEnd {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let last = LivePosition { lane: -1, due_at: DB::raw_instant(row, 1)?, id: DB::number(row, 2)? };
        Ok(Self { rows: count(DB::number(row, 0)?), last })
    }
}

/// The last row of a step, and the row that was looked for.
pub(crate) struct IdStep {
    pub(crate) last: Option<i64>,
    pub(crate) found: Option<i64>,
}

impl FromRow for IdStep {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self { last: DB::optional_number(row, 0)?, found: DB::optional_number(row, 1)? })
    }
}

/// Rows around another in its lane: those of its key that have failed before it, all that were read behind it, and those of its key.
pub(crate) struct NeighbourRow {
    failed: usize,
    read: usize,
    same: usize,
}

impl NeighbourRow {
    pub(crate) fn of(self, rows_max: usize) -> KeyNeighbours {
        KeyNeighbours { failed_before: self.failed > 0, behind: self.same, more: self.read >= rows_max }
    }
}

impl FromRow for NeighbourRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let number = |column| DB::number(row, column).map(count);
        Ok(Self { failed: number(0)?, read: number(1)?, same: number(2)? })
    }
}

/// How many rows were read of each range, and how many of them are in which state.
#[derive(Default)]
pub(crate) struct LiveCountRow {
    due: usize,
    later: usize,
    leased: usize,
    delayed: usize,
    retrying: usize,
    in_lanes: usize,
    failed_in_lanes: usize,
}

impl LiveCountRow {
    pub(crate) fn of(self, count_max: usize) -> LiveCount {
        let [more_due, more_later, more_in_lanes] = [self.due, self.later, self.in_lanes].map(|rows| rows >= count_max);
        LiveCount {
            due: BoundedCount { count: self.due, more: more_due },
            leased: BoundedCount { count: self.leased, more: more_later },
            delayed: BoundedCount { count: self.delayed, more: more_later },
            retrying: BoundedCount { count: self.retrying + self.failed_in_lanes, more: more_later || more_in_lanes },
            in_lanes: BoundedCount { count: self.in_lanes - self.failed_in_lanes, more: more_in_lanes },
        }
    }
}

impl FromRow for LiveCountRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let number = |column| DB::number(row, column).map(count);
        Ok(Self {
            due: number(0)?,
            later: number(1)?,
            leased: number(2)?,
            delayed: number(3)?,
            retrying: number(4)?,
            in_lanes: number(5)?,
            failed_in_lanes: number(6)?,
        })
    }
}
