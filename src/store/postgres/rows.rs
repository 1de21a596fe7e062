use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel::data_types::{PgInterval, PgTimestamp};
use diesel::deserialize::{QueryableByName, Result};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Interval, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::ctid::{Ctid, Tid};
use crate::store::decode::{RawBody, RawRow};
use crate::store::look::TopicLook;
use crate::store::statement::{self, count};
use crate::store::{Held, LookRange, NextDue, RowKey, TopicBacklog, overdue};

// Columns are read by their place: by name, each field of each row is looked for among all names.

/// A row of the confirm statement.
pub(super) struct ConfirmRow {
    pub(super) topic: Arc<str>,
    pub(super) row: RawRow,
    pub(super) lease_left: Duration,
}

impl QueryableByName<Pg> for ConfirmRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(12)?;
        // NULL where it is due never or always, by somebody's own hand: no lease to go by.
        let left: Option<PgInterval> = row.get_value::<Nullable<Interval>, _, _>(13)?;
        let lease_left = left.map_or(Duration::ZERO, lasts);
        Ok(Self { topic: topic.into(), row: raw_row(row, 0)?, lease_left })
    }
}

/// A row of the claim statement.
pub(super) enum ClaimRow {
    /// What it says of the range it read: told once.
    Range {
        read_at: PgTimestamp,
        first_due_at: Option<PgTimestamp>,
    },
    Claimed(ClaimedRow),
}

/// A row that the claim locked.
pub(super) struct ClaimedRow {
    pub(super) due_at: PgTimestamp,
    pub(super) ctid: Ctid,
    /// How large the payload is, where it is to be read apart.
    pub(super) bytes_apart: Option<i64>,
    pub(super) row: RawRow,
}

impl ClaimedRow {
    pub(super) fn payload_bytes(&self) -> usize {
        match (self.bytes_apart, &self.row.body) {
            (Some(bytes), _) => usize::try_from(bytes).unwrap_or(0),
            (None, Ok(body)) => body.payload.as_ref().map_or(0, Vec::len),
            (None, Err(_)) => 0,
        }
    }
}

impl QueryableByName<Pg> for ClaimRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let ctid: Option<Ctid> = row.get_value::<Nullable<Tid>, _, _>(13)?;
        let Some(ctid) = ctid else {
            let read_at = row.get_value::<Timestamptz, _, _>(10)?;
            return Ok(Self::Range { read_at, first_due_at: row.get_value::<Nullable<Timestamptz>, _, _>(12)? });
        };
        Ok(Self::Claimed(ClaimedRow {
            due_at: row.get_value::<Timestamptz, _, _>(12)?,
            ctid,
            bytes_apart: row.get_value::<Nullable<BigInt>, _, _>(14)?,
            row: raw_row(row, 0)?,
        }))
    }
}

/// The payload of a claimed row.
pub(super) struct PayloadRow {
    pub(super) key: RowKey,
    pub(super) payload: Option<Vec<u8>>,
}

impl QueryableByName<Pg> for PayloadRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        Ok(Self { key: key(row, 0)?, payload: row.get_value::<Nullable<Binary>, _, _>(2)? })
    }
}

/// A row by itself.
pub(super) struct LiveRow(pub(super) RawRow);

impl QueryableByName<Pg> for LiveRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        raw_row(row, 0).map(Self)
    }
}

/// Which row was written.
pub(super) struct KeyRow(pub(super) RowKey);

impl QueryableByName<Pg> for KeyRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        key(row, 0).map(Self)
    }
}

/// Which row is held, and under which epoch.
pub(super) struct HeldRow(pub(super) Held);

impl QueryableByName<Pg> for HeldRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        Ok(Self(Held { key: key(row, 0)?, epoch: row.get_value::<Integer, _, _>(2)? }))
    }
}

/// What a look finds of a topic.
pub(super) struct LookRow {
    topic: Arc<str>,
    from: PgTimestamp,
    now: PgTimestamp,
    due_at: Option<PgTimestamp>,
    later: Option<PgTimestamp>,
    is_paused: bool,
}

impl LookRow {
    pub(super) fn with_slack(self, slack: Duration) -> TopicLook {
        let Self { topic, from, now, due_at, later, is_paused } = self;
        let slack = statement::micros(slack);
        TopicLook {
            range: LookRange::new(&topic, from.0, now.0, due_at.map(|due_at| due_at.0), slack),
            due: due_at.map(|due_at| NextDue {
                due_in: micros(due_at.0.saturating_sub(now.0)),
                overdue_by: micros(now.0.saturating_sub(due_at.0)),
                later_in: later.map(|later| micros(later.0.saturating_sub(now.0))),
                topic,
            }),
            is_paused,
        }
    }
}

impl QueryableByName<Pg> for LookRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        Ok(Self {
            topic: topic.into(),
            due_at: row.get_value::<Nullable<Timestamptz>, _, _>(1)?,
            now: row.get_value::<Timestamptz, _, _>(2)?,
            later: row.get_value::<Nullable<Timestamptz>, _, _>(3)?,
            is_paused: row.get_value::<Bool, _, _>(4)?,
            from: row.get_value::<Timestamptz, _, _>(5)?,
        })
    }
}

/// What of a topic is in the tables.
pub(super) struct BacklogRow(pub(super) TopicBacklog);

impl QueryableByName<Pg> for BacklogRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        let first_due_at: Option<PgTimestamp> = row.get_value::<Nullable<Timestamptz>, _, _>(3)?;
        let now: PgTimestamp = row.get_value::<Timestamptz, _, _>(4)?;
        Ok(Self(TopicBacklog {
            topic: topic.into(),
            live: count(row.get_value::<BigInt, _, _>(1)?),
            due: count(row.get_value::<BigInt, _, _>(2)?),
            overdue_by: first_due_at.map_or(Duration::ZERO, |first| overdue(micros(now.0.saturating_sub(first.0)))),
            dead: count(row.get_value::<BigInt, _, _>(5)?),
        }))
    }
}

/// `id, message_id, epoch, failures, attempts, is_suspect, key, kind, headers, payload, created_at, deliver_at`, from column `first` on.
///
/// NULL stands for what nearly every row has: no failure, no headers. The server writes, and the client reads, what is not
/// NULL only, and each value costs the server a kilobyte of memory to write.
fn raw_row<'a>(row: &impl NamedRow<'a, Pg>, first: usize) -> Result<RawRow> {
    Ok(RawRow {
        key: key(row, first)?,
        epoch: row.get_value::<Nullable<Integer>, Option<i32>, _>(first + 2)?.unwrap_or_default(),
        failures: row.get_value::<Nullable<Integer>, Option<i32>, _>(first + 3)?.unwrap_or_default(),
        attempts: row.get_value::<Nullable<Integer>, Option<i32>, _>(first + 4)?.unwrap_or_default(),
        is_suspect: row.get_value::<Nullable<Bool>, Option<bool>, _>(first + 5)?.unwrap_or_default(),
        body: raw_body(row, first + 6),
    })
}

fn raw_body<'a>(row: &impl NamedRow<'a, Pg>, first: usize) -> Result<RawBody> {
    Ok(RawBody {
        key: row.get_value::<Nullable<Text>, _, _>(first)?,
        kind: row.get_value::<Text, _, _>(first + 1)?,
        headers: row.get_value::<Nullable<Text>, _, _>(first + 2)?,
        payload: row.get_value::<Nullable<Binary>, _, _>(first + 3)?,
        created_at: instant(row.get_value::<Timestamptz, _, _>(first + 4)?)?,
        deliver_at: row
            .get_value::<Nullable<Timestamptz>, Option<PgTimestamp>, _>(first + 5)?
            .map(instant)
            .transpose()?,
    })
}

pub(super) fn key<'a>(row: &impl NamedRow<'a, Pg>, first: usize) -> Result<RowKey> {
    let message_id: Uuid = row.get_value::<SqlUuid, _, _>(first + 1)?;
    Ok(RowKey { id: row.get_value::<BigInt, _, _>(first)?, message_id: message_id.into() })
}

/// From 1970, where clocks begin, to 2000, where PostgreSQL's do.
const EPOCH_OFFSET: Duration = Duration::from_secs(946_684_800);

pub(crate) fn instant(at: PgTimestamp) -> Result<SystemTime> {
    let epoch = SystemTime::UNIX_EPOCH + EPOCH_OFFSET;
    let distance = Duration::from_micros(at.0.unsigned_abs());
    let instant = if at.0 < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    instant.ok_or_else(|| OutOfRange { micros: at.0 }.into())
}

/// The other way; of an instant before 1970, 1970.
pub(super) fn timestamp(at: SystemTime) -> PgTimestamp {
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    PgTimestamp(statement::micros(since_1970).saturating_sub(statement::micros(EPOCH_OFFSET)))
}

/// The difference of two instants, which the database tells in days and microseconds; zero where it is negative.
fn lasts(interval: PgInterval) -> Duration {
    const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
    micros(i64::from(interval.days).saturating_mul(DAY_MICROS).saturating_add(interval.microseconds))
}

/// Zero where it is negative.
pub(super) fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[derive(Debug, thiserror::Error)]
#[error("the instant {micros} µs from the year 2000 is out of range")]
struct OutOfRange {
    micros: i64,
}
