//! Reads the values that this database returns differently from the others.

use std::time::{Duration, SystemTime};

use diesel::data_types::{PgInterval, PgTimestamp};
use diesel::deserialize::Result;
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{
    BigInt, Binary, Bool, Integer, Interval, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use uuid::Uuid;

use super::instants::instant;
use crate::message::MessageId;
use crate::store::sql::dialect::count;
use crate::store::sql::read_value::{Columns, common_columns};
use crate::store::sql::rows::key;
use crate::store::{Horizon, LaneEntry};

impl Columns for Pg {
    common_columns!();

    fn message_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<MessageId> {
        row.get_value::<SqlUuid, Uuid, _>(column).map(Into::into)
    }

    fn optional_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<Uuid>> {
        row.get_value::<Nullable<SqlUuid>, _, _>(column)
    }

    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
        row.get_value::<SmallInt, i16, _>(column).map(i32::from)
    }

    fn raw_instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i64> {
        row.get_value::<Timestamptz, PgTimestamp, _>(column).map(|at| at.0)
    }

    fn optional_raw_instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<i64>> {
        Ok(row.get_value::<Nullable<Timestamptz>, Option<PgTimestamp>, _>(column)?.map(|at| at.0))
    }

    fn at(raw: i64) -> Result<SystemTime> {
        instant(PgTimestamp(raw))
    }

    /// The difference of two instants, which the database returns in days and microseconds. NULL if the row was set by hand to be
    /// due never or always: then no lease can be derived.
    fn left<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Duration> {
        const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
        let left: Option<PgInterval> = row.get_value::<Nullable<Interval>, _, _>(column)?;
        let micros =
            |left: PgInterval| i64::from(left.days).saturating_mul(DAY_MICROS).saturating_add(left.microseconds);
        Ok(left.map_or(Duration::ZERO, |left| Self::ticks(micros(left))))
    }

    fn lane_entry<'a>(row: &impl NamedRow<'a, Self>) -> Result<LaneEntry> {
        let bytes: i32 = row.get_value::<Integer, _, _>(4)?;
        let (created_at, now) = (Self::raw_instant(row, 5)?, Self::raw_instant(row, 6)?);
        let (ended_below, begun_below) = (Self::number(row, 7)?, Self::number(row, 8)?);
        Ok(LaneEntry {
            scan: count(Self::number(row, 0)?.saturating_sub(1)),
            row: key::<Self>(row, 1)?,
            key: Self::optional_text(row, 3)?,
            bytes: usize::try_from(bytes).unwrap_or(0),
            age: Self::ticks(now.saturating_sub(created_at)),
            horizon: Some(Horizon {
                ended_below: ended_below.cast_unsigned(),
                begun_below: begun_below.cast_unsigned(),
            }),
        })
    }
}
