use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel::deserialize::{QueryableByName, Result};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;
use uuid::Uuid;

use crate::clock::millis;
use crate::store::decode::{RawBody, RawRow};
use crate::store::look::TopicLook;
use crate::store::statement::count;
use crate::store::{Held, LookRange, NextDue, RowKey, TopicBacklog, overdue};

// Columns are read by their place: by name, each field of each row is looked for among all names.

/// A row of the confirm statement.
pub(super) struct ConfirmRow {
    pub(super) topic: Arc<str>,
    pub(super) row: RawRow,
    pub(super) lease_left: Duration,
}

impl QueryableByName<Sqlite> for ConfirmRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(12)?;
        let left_ms: i64 = row.get_value::<BigInt, _, _>(13)?;
        Ok(Self { topic: topic.into(), row: raw_row(row, 0)?, lease_left: ms(left_ms) })
    }
}

/// A row of the statement that reads what is due: what it says of the whole, and a row where there is one.
pub(super) struct DueMessage {
    pub(super) read_at: i64,
    /// How many were found, before they were cut at the bytes.
    pub(super) found: i64,
    pub(super) row: Option<(i64, RawRow)>,
}

impl QueryableByName<Sqlite> for DueMessage {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let due_at: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(2)?;
        let due = match due_at {
            Some(due_at) => Some((due_at, raw_row(row, 3)?)),
            None => None,
        };
        Ok(Self { read_at: row.get_value::<BigInt, _, _>(0)?, found: row.get_value::<BigInt, _, _>(1)?, row: due })
    }
}

/// A row by itself.
pub(super) struct LiveRow(pub(super) RawRow);

impl QueryableByName<Sqlite> for LiveRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        raw_row(row, 0).map(Self)
    }
}

/// What is to be removed for its age: of the rows that were looked at, how many there are, and how many fit into one step.
pub(super) struct FallenRow {
    pub(super) found: usize,
    pub(super) fitting: usize,
}

impl QueryableByName<Sqlite> for FallenRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let number = |column| row.get_value::<BigInt, i64, _>(column).map(count);
        Ok(Self { found: number(0)?, fitting: number(1)? })
    }
}

/// Which row was written.
pub(super) struct KeyRow(pub(super) RowKey);

impl QueryableByName<Sqlite> for KeyRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        key(row, 0).map(Self)
    }
}

/// Which row is held, and under which epoch.
pub(super) struct HeldRow(pub(super) Held);

impl QueryableByName<Sqlite> for HeldRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        Ok(Self(Held { key: key(row, 0)?, epoch: row.get_value::<Integer, _, _>(2)? }))
    }
}

/// What a look finds of a topic.
pub(super) struct LookRow {
    topic: Arc<str>,
    from: i64,
    now: i64,
    due_at: Option<i64>,
    later: Option<i64>,
    is_paused: bool,
}

impl LookRow {
    pub(super) fn with_slack(self, slack: Duration) -> TopicLook {
        let Self { topic, from, now, due_at, later, is_paused } = self;
        TopicLook {
            range: LookRange::new(&topic, from, now, due_at, millis(slack)),
            due: due_at.map(|due_at| NextDue {
                due_in: ms(due_at.saturating_sub(now)),
                overdue_by: ms(now.saturating_sub(due_at)),
                later_in: later.map(|later| ms(later.saturating_sub(now))),
                topic,
            }),
            is_paused,
        }
    }
}

impl QueryableByName<Sqlite> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        Ok(Self {
            topic: topic.into(),
            due_at: row.get_value::<Nullable<BigInt>, _, _>(1)?,
            now: row.get_value::<BigInt, _, _>(2)?,
            later: row.get_value::<Nullable<BigInt>, _, _>(3)?,
            is_paused: row.get_value::<BigInt, i64, _>(4)? > 0,
            from: row.get_value::<BigInt, _, _>(5)?,
        })
    }
}

/// What of a topic is in the tables.
pub(super) struct BacklogRow(pub(super) TopicBacklog);

impl QueryableByName<Sqlite> for BacklogRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        let overdue_by: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(3)?;
        Ok(Self(TopicBacklog {
            topic: topic.into(),
            live: count(row.get_value::<BigInt, _, _>(1)?),
            due: count(row.get_value::<BigInt, _, _>(2)?),
            overdue_by: overdue(ms(overdue_by.unwrap_or(0))),
            dead: count(row.get_value::<BigInt, _, _>(4)?),
        }))
    }
}

/// The text of CREATE TABLE.
pub(super) struct SqlRow(pub(super) String);

impl QueryableByName<Sqlite> for SqlRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        row.get_value::<Text, _, _>(0).map(Self)
    }
}

fn raw_row<'a>(row: &impl NamedRow<'a, Sqlite>, first: usize) -> Result<RawRow> {
    Ok(RawRow {
        key: key(row, first)?,
        epoch: row.get_value::<Integer, _, _>(first + 2)?,
        failures: row.get_value::<Integer, _, _>(first + 3)?,
        attempts: row.get_value::<Integer, _, _>(first + 4)?,
        is_suspect: row.get_value::<Bool, _, _>(first + 5)?,
        body: raw_body(row, first + 6),
    })
}

fn raw_body<'a>(row: &impl NamedRow<'a, Sqlite>, first: usize) -> Result<RawBody> {
    let created_at_ms: i64 = row.get_value::<BigInt, _, _>(first + 4)?;
    let deliver_at_ms: Option<i64> = row.get_value::<Nullable<BigInt>, _, _>(first + 5)?;
    Ok(RawBody {
        key: row.get_value::<Nullable<Text>, _, _>(first)?,
        kind: row.get_value::<Text, _, _>(first + 1)?,
        headers: Some(row.get_value::<Text, _, _>(first + 2)?),
        payload: row.get_value::<Nullable<Binary>, _, _>(first + 3)?,
        created_at: SystemTime::UNIX_EPOCH + ms(created_at_ms),
        deliver_at: deliver_at_ms.map(|at| SystemTime::UNIX_EPOCH + ms(at)),
    })
}

pub(super) fn key<'a>(row: &impl NamedRow<'a, Sqlite>, first: usize) -> Result<RowKey> {
    let message_id: Vec<u8> = row.get_value::<Binary, _, _>(first + 1)?;
    Ok(RowKey { id: row.get_value::<BigInt, _, _>(first)?, message_id: Uuid::from_slice(&message_id)?.into() })
}

/// Zero where it is negative.
pub(super) fn ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
