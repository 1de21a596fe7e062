use std::sync::Arc;
use std::time::SystemTime;

use diesel::deserialize::{QueryableByName, Result};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{Bool, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::rows::instant;
use crate::message::MessageId;
use crate::store::admin_rows::Columns;

/// What a write to one message found.
pub(super) struct CancelRow {
    /// Of the message, where it was written.
    pub(super) topic: Option<Arc<str>>,
    pub(super) was_there: bool,
}

impl QueryableByName<Pg> for CancelRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let topic: Option<String> = row.get_value::<Nullable<Text>, _, _>(0)?;
        Ok(Self { topic: topic.map(Into::into), was_there: row.get_value::<Bool, _, _>(1)? })
    }
}

impl Columns for Pg {
    fn message_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<MessageId> {
        row.get_value::<SqlUuid, Uuid, _>(column).map(Into::into)
    }

    fn instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<SystemTime> {
        instant(row.get_value::<Timestamptz, _, _>(column)?)
    }

    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
        row.get_value::<SmallInt, i16, _>(column).map(i32::from)
    }
}
