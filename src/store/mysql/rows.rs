use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel::deserialize::{QueryableByName, Result};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use uuid::Uuid;

use crate::store::decode::{RawBody, RawRow};
use crate::store::statement::count;
use crate::store::{NextDue, RowKey, TopicBacklog};

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
        let left: i64 = row.get_value::<BigInt, _, _>(13)?;
        Ok(Self { topic: topic.into(), row: raw_row(row)?, lease_left: micros(left) })
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

/// When a topic is due, nothing where it has no rows; and itself where it is paused.
pub(super) struct LookRow(pub(super) (Option<NextDue>, Option<Arc<str>>));

impl QueryableByName<Mysql> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        let topic: Arc<str> = topic.into();
        let due_in: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(1)?;
        let later_in: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(2)?;
        let is_paused = row.get_value::<BigInt, i64, _>(3)? > 0;
        let due = due_in.map(|due_in| NextDue {
            topic: Arc::clone(&topic),
            due_in: micros(due_in),
            overdue_by: micros(due_in.saturating_neg()),
            later_in: later_in.map(micros),
        });
        Ok(Self((due, is_paused.then_some(topic))))
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
            overdue_by: micros(overdue_by.unwrap_or(0)),
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
