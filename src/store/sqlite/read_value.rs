//! Reads the values that this database returns differently from the others.

use std::time::Duration;

use diesel::deserialize::Result;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;

use crate::clock::millis;
use crate::store::LaneEntry;
use crate::store::sql::dialect::count;
use crate::store::sql::read_value::{Columns, common_columns};
use crate::store::sql::rows::key;

// Instants are milliseconds since 1970.
impl Columns for Sqlite {
    common_columns!();

    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
        row.get_value::<Integer, _, _>(column)
    }

    fn ticks(number: i64) -> Duration {
        Duration::from_millis(u64::try_from(number).unwrap_or(0))
    }

    fn in_ticks(duration: Duration) -> i64 {
        millis(duration)
    }

    fn lane_entry<'a>(row: &impl NamedRow<'a, Self>) -> Result<LaneEntry> {
        Ok(LaneEntry {
            scan: count(Self::number(row, 0)?),
            row: key::<Self>(row, 1)?,
            key: Self::optional_text(row, 3)?,
            bytes: count(Self::number(row, 4)?),
            // One transaction writes at a time.
            age: Duration::MAX,
            horizon: None,
        })
    }
}
