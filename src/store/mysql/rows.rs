use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel::deserialize::{QueryableByName, Result};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use uuid::Uuid;

use super::bind::look_bounds;
use crate::store::decode::{RawBody, RawRow};
use crate::store::look::TopicLook;
use crate::store::statement::{self, count};
use crate::store::{LookAt, LookRange, NextDue, RowKey, TopicBacklog, overdue};

// Columns are read by their place: by name, each field of each row is looked for among all names.

/// A row of the confirm statement.
pub(super) struct ConfirmRow {
    pub(super) topic: Arc<str>,
    pub(super) row: RawRow,
    pub(super) lease_left: Duration,
}

impl QueryableByName<Mysql> for ConfirmRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(12)?;
        // NULL of the year 0, which somebody may have set it to.
        let left: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(13)?;
        Ok(Self { topic: topic.into(), row: raw_row(row)?, lease_left: micros(left.unwrap_or(0)) })
    }
}

/// A row that the claim locked, without its payload.
pub(super) struct ClaimedRow {
    pub(super) row: RawRow,
    pub(super) payload_bytes: Option<i64>,
}

impl QueryableByName<Mysql> for ClaimedRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self { row: raw_row(row)?, payload_bytes: row.get_value::<Nullable<BigInt>, _, _>(12)? })
    }
}

/// The payload of a claimed row.
pub(super) struct PayloadRow {
    pub(super) id: i64,
    pub(super) payload: Option<Vec<u8>>,
}

impl QueryableByName<Mysql> for PayloadRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        let payload = row.get_value::<Nullable<Binary>, _, _>(1)?;
        Ok(Self { id: row.get_value::<BigInt, _, _>(0)?, payload })
    }
}

/// The server's clock, and the first row of a range, locked or not; in microseconds from 1970.
pub(super) struct WatermarkRow {
    pub(super) read_at: i64,
    pub(super) first_due_at: Option<i64>,
}

impl QueryableByName<Mysql> for WatermarkRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        let first_due_at = row.get_value::<Nullable<BigInt>, _, _>(1)?;
        Ok(Self { read_at: row.get_value::<BigInt, _, _>(0)?, first_due_at })
    }
}

/// A row by itself.
pub(super) struct LiveRow(pub(super) RawRow);

impl QueryableByName<Mysql> for LiveRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        raw_row(row).map(Self)
    }
}

/// Which row was locked.
pub(super) struct KeyRow(pub(super) RowKey);

impl QueryableByName<Mysql> for KeyRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        key(row, 0).map(Self)
    }
}

/// What a look finds of a topic; in microseconds from 1970.
pub(super) struct LookRow {
    pub(super) place: usize,
    now: i64,
    due_at: Option<i64>,
    later: Option<i64>,
    is_paused: bool,
}

impl LookRow {
    pub(super) fn of(self, at: &LookAt, slack: Duration) -> TopicLook {
        let Self { now, due_at, later, is_paused, .. } = self;
        let (first, since) = look_bounds(at.from);
        let from = first.max(now.saturating_add(since));
        TopicLook {
            due: due_at.map(|due_at| NextDue {
                topic: Arc::clone(&at.topic),
                due_in: micros(due_at.saturating_sub(now)),
                overdue_by: micros(now.saturating_sub(due_at)),
                later_in: later.map(|later| micros(later.saturating_sub(now))),
            }),
            is_paused,
            range: LookRange::new(&at.topic, from, now, due_at, statement::micros(slack)),
        }
    }
}

impl QueryableByName<Mysql> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        Ok(Self {
            place: count(row.get_value::<BigInt, _, _>(0)?),
            now: row.get_value::<BigInt, _, _>(1)?,
            due_at: row.get_value::<Nullable<BigInt>, _, _>(2)?,
            later: row.get_value::<Nullable<BigInt>, _, _>(3)?,
            is_paused: row.get_value::<BigInt, i64, _>(4)? > 0,
        })
    }
}

/// What of a topic is in the tables, and where the next topic is.
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
        let overdue_by: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(2)?;
        Ok(Self {
            live: count(row.get_value::<BigInt, _, _>(0)?),
            due: count(row.get_value::<BigInt, _, _>(1)?),
            overdue_by: overdue(micros(overdue_by.unwrap_or(0))),
            dead: count(row.get_value::<BigInt, _, _>(3)?),
            next_live: row.get_value::<Nullable<Text>, _, _>(4)?,
            next_dead: row.get_value::<Nullable<Text>, _, _>(5)?,
        })
    }
}

impl BacklogRow {
    /// The first of the topics behind this one.
    pub(super) fn next_topic(&self) -> Option<Arc<str>> {
        self.next_live.iter().chain(&self.next_dead).min().map(|topic| topic.as_str().into())
    }

    /// What there is, where there is anything.
    pub(super) fn of(self, topic: &Arc<str>) -> Option<TopicBacklog> {
        let Self { live, due, overdue_by, dead, .. } = self;
        (live + dead > 0).then(|| TopicBacklog { topic: Arc::clone(topic), live, due, overdue_by, dead })
    }
}

/// `id, message_id, epoch, failures, attempts, is_suspect, key, kind, headers, payload, created_at, deliver_at`.
fn raw_row<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<RawRow> {
    Ok(RawRow {
        key: key(row, 0)?,
        epoch: row.get_value::<Integer, _, _>(2)?,
        failures: row.get_value::<Integer, _, _>(3)?,
        attempts: row.get_value::<Integer, _, _>(4)?,
        is_suspect: row.get_value::<Bool, _, _>(5)?,
        body: raw_body(row),
    })
}

fn raw_body<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<RawBody> {
    let created_at: i64 = row.get_value::<BigInt, _, _>(10)?;
    let deliver_at: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(11)?;
    Ok(RawBody {
        key: row.get_value::<Nullable<Text>, _, _>(6)?,
        kind: row.get_value::<Text, _, _>(7)?,
        headers: Some(row.get_value::<Text, _, _>(8)?),
        payload: row.get_value::<Nullable<Binary>, _, _>(9)?,
        created_at: SystemTime::UNIX_EPOCH + micros(created_at),
        deliver_at: deliver_at.map(|at| SystemTime::UNIX_EPOCH + micros(at)),
    })
}

pub(super) fn key<'a>(row: &impl NamedRow<'a, Mysql>, first: usize) -> Result<RowKey> {
    let message_id: Vec<u8> = row.get_value::<Binary, _, _>(first + 1)?;
    Ok(RowKey { id: row.get_value::<BigInt, _, _>(first)?, message_id: Uuid::from_slice(&message_id)?.into() })
}

/// Zero where it is negative.
pub(super) fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
