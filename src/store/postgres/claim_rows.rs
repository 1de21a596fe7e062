use diesel::deserialize::{QueryableByName, Result};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::Nullable;

use super::ctid::{Ctid, Tid};
use crate::store::RowKey;
use crate::store::decode::RawRow;
use crate::store::sql::read_value::Columns;
use crate::store::sql::rows::{RAW_ROW_COLUMNS, key, raw_row};

/// A row of the claim statement.
pub(super) enum ClaimRow {
    /// The range that was read: returned once.
    Range {
        read_at: i64,
        first_due_at: Option<i64>,
    },
    Claimed(ClaimedRow),
}

/// A row that the claim locked.
pub(super) struct ClaimedRow {
    pub(super) due_at: i64,
    pub(super) ctid: Ctid,
    /// The payload's size, if it is to be read separately.
    pub(super) large_payload_bytes: Option<i64>,
    pub(super) row: RawRow,
}

impl ClaimedRow {
    pub(super) fn payload_bytes(&self) -> usize {
        match (self.large_payload_bytes, &self.row.body) {
            (Some(bytes), _) => usize::try_from(bytes).unwrap_or(0),
            (None, Ok(body)) => body.payload.as_ref().map_or(0, Vec::len),
            (None, Err(_)) => 0,
        }
    }
}

impl QueryableByName<Pg> for ClaimRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let ctid: Option<Ctid> = row.get_value::<Nullable<Tid>, _, _>(RAW_ROW_COLUMNS + 1)?;
        let Some(ctid) = ctid else {
            return Ok(Self::Range {
                read_at: Pg::raw_instant(row, 10)?,
                first_due_at: Pg::optional_raw_instant(row, RAW_ROW_COLUMNS)?,
            });
        };
        Ok(Self::Claimed(ClaimedRow {
            due_at: Pg::raw_instant(row, RAW_ROW_COLUMNS)?,
            ctid,
            large_payload_bytes: Pg::optional_number(row, RAW_ROW_COLUMNS + 2)?,
            row: raw_row::<Pg>(row, 0)?,
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
        Ok(Self { key: key::<Pg>(row, 0)?, payload: Pg::bytes(row, 2)? })
    }
}
