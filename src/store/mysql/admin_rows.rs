use std::sync::Arc;
use std::time::SystemTime;

use diesel::deserialize::{QueryableByName, Result};
use diesel::mysql::Mysql;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, SmallInt, Text};
use uuid::Uuid;

use super::rows::micros;
use crate::message::MessageId;
use crate::store::admin_rows::Columns;

/// One live message.
pub(super) struct OneRow {
    pub(super) id: i64,
    pub(super) topic: Arc<str>,
}

impl QueryableByName<Mysql> for OneRow {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(1)?;
        Ok(Self { id: row.get_value::<BigInt, _, _>(0)?, topic: topic.into() })
    }
}

impl Columns for Mysql {
    fn message_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<MessageId> {
        let id: Vec<u8> = row.get_value::<Binary, _, _>(column)?;
        Ok(Uuid::from_slice(&id)?.into())
    }

    fn instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + micros(row.get_value::<BigInt, _, _>(column)?))
    }

    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
        row.get_value::<SmallInt, i16, _>(column).map(i32::from)
    }
}
