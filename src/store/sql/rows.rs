//! How values are read from rows, the same for every database.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel::deserialize::{QueryableByName, Result};
use diesel::row::NamedRow;

use super::dialect::count;
use super::read_value::Columns;
use crate::lane::NodeId;
use crate::message::MessageId;
use crate::store::decode::{RawBody, RawRow};
use crate::store::lanes::LaneViewRow;
use crate::store::poll::TopicPoll;
use crate::store::{Held, LaneCount, LaneEntry, NextDue, PausedTopic, PollRange, RowKey};

/// A value that a row of any database is read into.
pub(crate) trait FromRow: Sized {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self>;
}

/// A row that was read, as Diesel loads it.
pub(crate) struct Read<T>(pub(crate) T);

impl<DB: Columns, T: FromRow> QueryableByName<DB> for Read<T> {
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        T::from_row::<DB>(row).map(Self)
    }
}

/// Reads nothing, for a statement that only locks.
impl FromRow for () {
    fn from_row<'a, DB: Columns>(_row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(())
    }
}

impl FromRow for i64 {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::number(row, 0)
    }
}

impl FromRow for usize {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::number(row, 0).map(count)
    }
}

impl FromRow for SystemTime {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::instant(row, 0)
    }
}

impl FromRow for String {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::text(row, 0)
    }
}

impl FromRow for PausedTopic {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self { topic: DB::text(row, 0)?.into(), since: DB::instant(row, 1)? })
    }
}

impl FromRow for LaneCount {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let lanes = DB::number(row, 1)?;
        Ok(Self { topic: DB::text(row, 0)?.into(), lanes: u16::try_from(lanes).unwrap_or(u16::MAX) })
    }
}

impl FromRow for MessageId {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::message_id(row, 0)
    }
}

/// Which row was written, or locked.
impl FromRow for RowKey {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        key(row, 0)
    }
}

/// Which row is held, and under which epoch.
impl FromRow for Held {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self { key: key(row, 0)?, epoch: DB::int(row, 2)? })
    }
}

/// A row without further columns.
impl FromRow for RawRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        raw_row(row, 0)
    }
}

/// A row of the confirm statement.
pub(crate) struct ConfirmRow {
    pub(crate) topic: Arc<str>,
    pub(crate) row: RawRow,
    pub(crate) lease_left: Duration,
}

impl FromRow for ConfirmRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self {
            topic: DB::text(row, RAW_ROW_COLUMNS)?.into(),
            row: raw_row(row, 0)?,
            lease_left: DB::left(row, RAW_ROW_COLUMNS + 1)?,
        })
    }
}

/// A lane, or a node.
impl FromRow for LaneViewRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self {
            lane: DB::number(row, 0)?,
            owner: DB::optional_id(row, 1)?.map(NodeId::from),
            fence: DB::number(row, 2)?,
            expires_in: DB::ticks(DB::number(row, 3)?),
            quiet_for: DB::ticks(DB::number(row, 4)?),
        })
    }
}

impl FromRow for LaneEntry {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::lane_entry(row)
    }
}

/// What a poll finds of a topic. Instants are raw.
pub(crate) struct RawPoll {
    pub(crate) from: i64,
    pub(crate) now: i64,
    pub(crate) due_at: Option<i64>,
    pub(crate) later: Option<i64>,
    pub(crate) is_paused: bool,
}

impl RawPoll {
    pub(crate) fn of<DB: Columns>(self, topic: &Arc<str>, slack: Duration) -> TopicPoll {
        let Self { from, now, due_at, later, is_paused } = self;
        TopicPoll {
            range: PollRange::new(topic, from, now, due_at, DB::in_ticks(slack)),
            read_at: DB::at(now).ok(),
            due: due_at.map(|due_at| NextDue {
                topic: Arc::clone(topic),
                due_in: DB::ticks(due_at.saturating_sub(now)),
                overdue_by: DB::ticks(now.saturating_sub(due_at)),
                later_in: later.map(|later| DB::ticks(later.saturating_sub(now))),
            }),
            is_paused,
        }
    }
}

/// The same with the topic: `topic, due_at, now, later, is_paused, from`.
pub(crate) struct RawPollRow(pub(crate) Arc<str>, pub(crate) RawPoll);

impl FromRow for RawPollRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let poll = RawPoll {
            due_at: DB::optional_raw_instant(row, 1)?,
            now: DB::raw_instant(row, 2)?,
            later: DB::optional_raw_instant(row, 3)?,
            is_paused: DB::flag(row, 4)?,
            from: DB::raw_instant(row, 5)?,
        };
        Ok(Self(DB::text(row, 0)?.into(), poll))
    }
}

/// How many columns [`raw_row`] reads. What a statement returns further stands behind them.
pub(crate) const RAW_ROW_COLUMNS: usize = 12;

/// `id, message_id, epoch, failures, attempts, is_suspect, key, kind, headers, payload, created_at, deliver_at`, from column `first` on.
///
/// NULL may stand for the value that nearly every row has: no failure, no headers. PostgreSQL and its client spend time on non-NULL
/// values only, and each such value costs the server a kilobyte of memory.
pub(crate) fn raw_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>, first: usize) -> Result<RawRow> {
    Ok(RawRow {
        key: key(row, first)?,
        epoch: DB::int(row, first + 2)?,
        failures: DB::int(row, first + 3)?,
        attempts: DB::int(row, first + 4)?,
        is_suspect: DB::flag(row, first + 5)?,
        body: raw_body(row, first + 6),
    })
}

fn raw_body<'a, DB: Columns>(row: &impl NamedRow<'a, DB>, first: usize) -> Result<RawBody> {
    Ok(RawBody {
        key: DB::optional_text(row, first)?,
        kind: DB::text(row, first + 1)?,
        headers: DB::optional_text(row, first + 2)?,
        payload: DB::bytes(row, first + 3)?,
        created_at: DB::instant(row, first + 4)?,
        deliver_at: DB::optional_raw_instant(row, first + 5)?.map(DB::at).transpose()?,
    })
}

pub(crate) fn key<'a, DB: Columns>(row: &impl NamedRow<'a, DB>, first: usize) -> Result<RowKey> {
    Ok(RowKey { id: DB::number(row, first)?, message_id: DB::message_id(row, first + 1)? })
}
