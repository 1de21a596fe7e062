//! How a database returns values that each database returns differently.

use std::time::{Duration, SystemTime};

use diesel::backend::Backend;
use diesel::deserialize::Result;
use diesel::row::NamedRow;
use uuid::Uuid;

use super::dialect::micros;
use crate::message::MessageId;
use crate::store::LaneEntry;

/// Reads columns by position: by name, each field of each row is looked up among all names.
pub trait Columns: Backend {
    fn text<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<String>;

    fn optional_text<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<String>>;

    fn bytes<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<Vec<u8>>>;

    fn number<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i64>;

    fn optional_number<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<i64>>;

    /// Reads NULL as 0: statements return NULL for the value that nearly every row has.
    fn int<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32>;

    /// Reads NULL as false.
    fn flag<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<bool>;

    /// Read from bytes, if the database has no type for it.
    fn message_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<MessageId> {
        Ok(Uuid::from_slice(&Self::bytes(row, column)?.unwrap_or_default())?.into())
    }

    fn optional_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<Uuid>> {
        Ok(Self::bytes(row, column)?.map(|id| Uuid::from_slice(&id)).transpose()?)
    }

    /// A lane; negative outside of lanes.
    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32>;

    /// An instant, in the unit of [`DueWatermark`](crate::store::DueWatermark).
    fn raw_instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i64> {
        Self::number(row, column)
    }

    fn optional_raw_instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<i64>> {
        Self::optional_number(row, column)
    }

    /// Converts from the unit of instants and of every duration in a row; zero if it is negative.
    fn ticks(number: i64) -> Duration {
        Duration::from_micros(u64::try_from(number).unwrap_or(0))
    }

    /// The reverse.
    fn in_ticks(duration: Duration) -> i64 {
        micros(duration)
    }

    /// Converts a raw instant.
    fn at(raw: i64) -> Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + Self::ticks(raw))
    }

    fn instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<SystemTime> {
        Self::at(Self::raw_instant(row, column)?)
    }

    /// How long until an instant, from a column with that difference; zero if it is past, or no valid instant.
    fn left<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Duration> {
        Ok(Self::ticks(Self::optional_number(row, column)?.unwrap_or_default()))
    }

    /// A row of a lane, without payload and headers.
    fn lane_entry<'a>(row: &impl NamedRow<'a, Self>) -> Result<LaneEntry>;
}

/// The methods that are the same for every database. They need its types, so each implementation gets them from this macro.
macro_rules! common_columns {
    () => {
        fn text<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<String> {
            row.get_value::<Text, _, _>(column)
        }

        fn optional_text<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<String>> {
            row.get_value::<Nullable<Text>, _, _>(column)
        }

        fn bytes<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<Vec<u8>>> {
            row.get_value::<Nullable<Binary>, _, _>(column)
        }

        fn number<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i64> {
            row.get_value::<BigInt, _, _>(column)
        }

        fn optional_number<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<Option<i64>> {
            row.get_value::<Nullable<BigInt>, _, _>(column)
        }

        fn int<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
            Ok(row.get_value::<Nullable<Integer>, Option<i32>, _>(column)?.unwrap_or_default())
        }

        fn flag<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<bool> {
            Ok(row.get_value::<Nullable<Bool>, Option<bool>, _>(column)?.unwrap_or_default())
        }
    };
}

pub(crate) use common_columns;
