use std::sync::Arc;
use std::time::Duration;

use diesel::deserialize::{QueryableByName, Result};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;

use super::bind::poll_bounds;
use crate::store::decode::RawRow;
use crate::store::poll::TopicPoll;
use crate::store::sql::dialect::count;
use crate::store::sql::read_value::Columns;
use crate::store::sql::rows::{RAW_ROW_COLUMNS, RawPoll, raw_row};
use crate::store::{PollTopic, TopicBacklog, overdue};

/// A row that the claim locked, without its payload.
pub(super) struct ClaimedRow {
    pub(super) row: RawRow,
    pub(super) payload_bytes: Option<i64>,
}

impl QueryableByName<Mysql> for ClaimedRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self { row: raw_row::<Mysql>(row, 0)?, payload_bytes: Mysql::optional_number(row, RAW_ROW_COLUMNS)? })
    }
}

/// The payload of a claimed row.
pub(super) struct PayloadRow {
    pub(super) id: i64,
    pub(super) payload: Option<Vec<u8>>,
}

impl QueryableByName<Mysql> for PayloadRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self { id: Mysql::number(row, 0)?, payload: Mysql::bytes(row, 1)? })
    }
}

/// The server's clock, and the first row of a range, whether locked or not.
pub(super) struct WatermarkRow {
    pub(super) read_at: i64,
    pub(super) first_due_at: Option<i64>,
}

impl QueryableByName<Mysql> for WatermarkRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self { read_at: Mysql::number(row, 0)?, first_due_at: Mysql::optional_number(row, 1)? })
    }
}

/// What a poll finds of a topic.
pub(super) struct PollRow {
    pub(super) place: usize,
    now: i64,
    due_at: Option<i64>,
    later: Option<i64>,
    is_paused: bool,
}

impl PollRow {
    pub(super) fn of(self, at: &PollTopic, slack: Duration) -> TopicPoll {
        let Self { now, due_at, later, is_paused, .. } = self;
        let (first, since) = poll_bounds(at.from);
        let from = first.max(now.saturating_add(since));
        RawPoll { from, now, due_at, later, is_paused }.of::<Mysql>(&at.topic, slack)
    }
}

impl QueryableByName<Mysql> for PollRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self {
            place: count(Mysql::number(row, 0)?),
            now: Mysql::number(row, 1)?,
            due_at: Mysql::optional_number(row, 2)?,
            later: Mysql::optional_number(row, 3)?,
            is_paused: Mysql::number(row, 4)? > 0,
        })
    }
}

/// The backlog of a topic, and the next topic.
pub(super) struct BacklogRow {
    live: usize,
    due: usize,
    overdue_by: Duration,
    dead: usize,
    next_live: Option<String>,
    next_dead: Option<String>,
}

impl QueryableByName<Mysql> for BacklogRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self {
            live: count(Mysql::number(row, 0)?),
            due: count(Mysql::number(row, 1)?),
            overdue_by: overdue(Mysql::left(row, 2)?),
            dead: count(Mysql::number(row, 3)?),
            next_live: Mysql::optional_text(row, 4)?,
            next_dead: Mysql::optional_text(row, 5)?,
        })
    }
}

impl BacklogRow {
    /// The first topic after this one.
    pub(super) fn next_topic(&self) -> Option<Arc<str>> {
        self.next_live.iter().chain(&self.next_dead).min().map(|topic| topic.as_str().into())
    }

    /// The backlog, if there is any.
    pub(super) fn of(self, topic: &Arc<str>) -> Option<TopicBacklog> {
        let Self { live, due, overdue_by, dead, .. } = self;
        (live + dead > 0).then(|| TopicBacklog { topic: Arc::clone(topic), live, due, overdue_by, dead })
    }
}

/// One live message.
pub(super) struct OneRow {
    pub(super) id: i64,
    pub(super) topic: Arc<str>,
}

impl QueryableByName<Mysql> for OneRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self { id: Mysql::number(row, 0)?, topic: Mysql::text(row, 1)?.into() })
    }
}

/// A lane that is owned, and its fence.
pub(super) struct FenceRow {
    pub(super) lane: i64,
    pub(super) fence: i64,
}

impl QueryableByName<Mysql> for FenceRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self { lane: Mysql::number(row, 0)?, fence: Mysql::number(row, 1)? })
    }
}
