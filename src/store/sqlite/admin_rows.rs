use std::sync::Arc;
use std::time::SystemTime;

use diesel::deserialize::{QueryableByName, Result};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Integer, Text};
use diesel::sqlite::Sqlite;
use uuid::Uuid;

use super::rows::ms;
use crate::message::MessageId;
use crate::store::admin_rows::Columns;

/// The topic of a message.
pub(super) struct TopicRow(pub(super) Arc<str>);

impl QueryableByName<Sqlite> for TopicRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        Ok(Self(topic.into()))
    }
}

impl Columns for Sqlite {
    fn message_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<MessageId> {
        let id: Vec<u8> = row.get_value::<Binary, _, _>(column)?;
        Ok(Uuid::from_slice(&id)?.into())
    }

    fn instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + ms(row.get_value::<BigInt, _, _>(column)?))
    }

    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32> {
        row.get_value::<Integer, _, _>(column)
    }
}
