use std::sync::Arc;
use std::time::SystemTime;

use diesel::deserialize::{QueryableByName, Result};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;
use uuid::Uuid;

use super::rows::ms;
use crate::message::MessageId;
use crate::store::dead_search::failure_notes;
use crate::store::statement::count;
use crate::store::{DeadCount, DeadLetter, DeadMark};

/// The topic of a message.
pub(super) struct TopicRow(pub(super) Arc<str>);

impl QueryableByName<Sqlite> for TopicRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        Ok(Self(topic.into()))
    }
}

/// A message by its id.
pub(super) struct MessageIdRow(pub(super) MessageId);

impl QueryableByName<Sqlite> for MessageIdRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let id: Vec<u8> = row.get_value::<Binary, _, _>(0)?;
        Ok(Self(Uuid::from_slice(&id)?.into()))
    }
}

/// How many there are of a topic for a reason.
pub(super) struct CountRow(pub(super) DeadCount);

impl QueryableByName<Sqlite> for CountRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        let letters = count(row.get_value::<BigInt, _, _>(2)?);
        Ok(Self(DeadCount { topic: topic.into(), reason: row.get_value::<Text, _, _>(1)?, letters }))
    }
}

/// Where a dead letter is.
pub(super) struct MarkRow(pub(super) DeadMark);

impl QueryableByName<Sqlite> for MarkRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let message_id: Vec<u8> = row.get_value::<Binary, _, _>(0)?;
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let dead_at = SystemTime::UNIX_EPOCH + ms(row.get_value::<BigInt, _, _>(2)?);
        Ok(Self(DeadMark { topic: topic.into(), dead_at, message_id: Uuid::from_slice(&message_id)?.into() }))
    }
}

/// A moment.
pub(super) struct InstantRow(pub(super) SystemTime);

impl QueryableByName<Sqlite> for InstantRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        Ok(Self(SystemTime::UNIX_EPOCH + ms(row.get_value::<BigInt, _, _>(0)?)))
    }
}

/// A dead letter.
pub(super) struct LetterRow(pub(super) DeadLetter);

impl QueryableByName<Sqlite> for LetterRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> Result<Self> {
        let message_id: Vec<u8> = row.get_value::<Binary, _, _>(0)?;
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let lane: i32 = row.get_value::<Integer, _, _>(2)?;
        let created_at: i64 = row.get_value::<BigInt, _, _>(7)?;
        let dead_at: i64 = row.get_value::<BigInt, _, _>(8)?;
        let attempts: i32 = row.get_value::<Integer, _, _>(9)?;
        let failures: i32 = row.get_value::<Integer, _, _>(10)?;
        let errors: String = row.get_value::<Text, _, _>(11)?;
        Ok(Self(DeadLetter {
            message_id: Uuid::from_slice(&message_id)?.into(),
            topic: topic.into(),
            lane: u16::try_from(lane).ok(),
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            kind: row.get_value::<Text, _, _>(4)?,
            headers_json: row.get_value::<Text, _, _>(5)?,
            payload: row.get_value::<Nullable<Binary>, _, _>(6)?,
            created_at: SystemTime::UNIX_EPOCH + ms(created_at),
            dead_at: SystemTime::UNIX_EPOCH + ms(dead_at),
            attempts: u32::try_from(attempts).unwrap_or(0),
            failures: u32::try_from(failures).unwrap_or(0),
            errors: failure_notes(&errors),
            reason: row.get_value::<Text, _, _>(12)?,
        }))
    }
}
