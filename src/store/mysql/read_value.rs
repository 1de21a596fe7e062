//! Reads the values that this database returns differently from the others.

use diesel::deserialize::Result;
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, SmallInt, Text};

use crate::store::LaneEntry;
use crate::store::sql::dialect::count;
use crate::store::sql::read_value::{Columns, common_columns};
use crate::store::sql::rows::key;

// Instants are read as microseconds since 1970.
impl Columns for Mysql {
    common_columns!();

    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
        row.get_value::<SmallInt, i16, _>(column).map(i32::from)
    }

    fn lane_entry<'a>(row: &impl NamedRow<'a, Self>) -> Result<LaneEntry> {
        Ok(LaneEntry {
            scan: count(Self::number(row, 0)?),
            row: key::<Self>(row, 1)?,
            key: Self::optional_text(row, 3)?,
            bytes: count(Self::number(row, 4)?),
            age: Self::ticks(Self::number(row, 5)?),
            horizon: None,
        })
    }
}
