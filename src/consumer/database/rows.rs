//! What is read of a consumer's tables.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use diesel::deserialize::Result;
use diesel::row::NamedRow;

use crate::consumer::engine::{QueueKey, Replay};
use crate::consumer::record::{PartitionId, Record};
use crate::message::Headers;
use crate::store::sql::read_value::Columns;
use crate::store::sql::rows::FromRow;

/// A parked record.
pub(super) struct ParkedRow {
    pub(super) id: i64,
    offset: i64,
    key: Option<Vec<u8>>,
    headers: String,
    payload: Option<Vec<u8>>,
    sent_at_ms: i64,
}

impl ParkedRow {
    /// The record as it was read from the broker.
    pub(super) fn into_record(
        self,
        partition: PartitionId,
    ) -> std::result::Result<Record, crate::message::HeaderError> {
        let at = |ms: i64| u64::try_from(ms).ok().map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
        Ok(Record {
            partition,
            offset: self.offset,
            key: self.key.map(Arc::from),
            payload: self.payload,
            headers: Headers::from_json(&self.headers)?,
            timestamp: at(self.sent_at_ms),
        })
    }
}

impl FromRow for ParkedRow {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self {
            id: DB::number(row, 0)?,
            offset: DB::number(row, 1)?,
            key: DB::bytes(row, 2)?,
            headers: DB::text(row, 3)?,
            payload: DB::bytes(row, 4)?,
            sent_at_ms: DB::number(row, 5)?,
        })
    }
}

/// A key with parked records; none stands for those that were parked alone.
pub(super) struct ParkedKey(pub(super) Option<Arc<[u8]>>);

impl FromRow for ParkedKey {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self(DB::bytes(row, 0)?.map(Arc::from)))
    }
}

/// What is to be replayed because of a released row.
pub(super) struct Released(pub(super) QueueKey, pub(super) Replay);

impl FromRow for Released {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let (id, key, holds_key) =
            (DB::number(row, 0)?, DB::bytes(row, 1)?.map(Arc::<[u8]>::from), DB::number(row, 2)? == 1);
        let queue = key.clone().map_or(QueueKey::Keyless, QueueKey::Key);
        Ok(match key.filter(|_| holds_key) {
            Some(key) => Self(queue, Replay::Key(key)),
            None => Self(queue, Replay::Row(id)),
        })
    }
}
