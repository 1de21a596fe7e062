use std::sync::Arc;
use std::time::SystemTime;

use diesel::data_types::PgTimestamp;
use diesel::deserialize::{QueryableByName, Result};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::rows::instant;
use crate::message::MessageId;
use crate::store::dead_search::failure_notes;
use crate::store::statement::count;
use crate::store::{DeadCount, DeadLetter, DeadMark};

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

/// A message by its id.
pub(super) struct MessageIdRow(pub(super) MessageId);

impl QueryableByName<Pg> for MessageIdRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let id: Uuid = row.get_value::<SqlUuid, _, _>(0)?;
        Ok(Self(id.into()))
    }
}

/// How many there are of a topic for a reason.
pub(super) struct CountRow(pub(super) DeadCount);

impl QueryableByName<Pg> for CountRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        let letters = count(row.get_value::<BigInt, _, _>(2)?);
        Ok(Self(DeadCount { topic: topic.into(), reason: row.get_value::<Text, _, _>(1)?, letters }))
    }
}

/// Where a dead letter is.
pub(super) struct MarkRow(pub(super) DeadMark);

impl QueryableByName<Pg> for MarkRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let message_id: Uuid = row.get_value::<SqlUuid, _, _>(0)?;
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let dead_at = instant(row.get_value::<Timestamptz, _, _>(2)?)?;
        Ok(Self(DeadMark { topic: topic.into(), dead_at, message_id: message_id.into() }))
    }
}

/// A moment.
pub(super) struct InstantRow(pub(super) SystemTime);

impl QueryableByName<Pg> for InstantRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        instant(row.get_value::<Timestamptz, _, _>(0)?).map(Self)
    }
}

/// A dead letter.
pub(super) struct LetterRow(pub(super) DeadLetter);

impl QueryableByName<Pg> for LetterRow {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> Result<Self> {
        let message_id: Uuid = row.get_value::<SqlUuid, _, _>(0)?;
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let lane: i16 = row.get_value::<SmallInt, _, _>(2)?;
        let created_at: PgTimestamp = row.get_value::<Timestamptz, _, _>(7)?;
        let dead_at: PgTimestamp = row.get_value::<Timestamptz, _, _>(8)?;
        let attempts: i32 = row.get_value::<Integer, _, _>(9)?;
        let failures: i32 = row.get_value::<Integer, _, _>(10)?;
        let errors: String = row.get_value::<Text, _, _>(11)?;
        Ok(Self(DeadLetter {
            message_id: message_id.into(),
            topic: topic.into(),
            lane: u16::try_from(lane).ok(),
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            kind: row.get_value::<Text, _, _>(4)?,
            headers_json: row.get_value::<Text, _, _>(5)?,
            payload: row.get_value::<Nullable<Binary>, _, _>(6)?,
            created_at: instant(created_at)?,
            dead_at: instant(dead_at)?,
            attempts: u32::try_from(attempts).unwrap_or(0),
            failures: u32::try_from(failures).unwrap_or(0),
            errors: failure_notes(&errors),
            reason: row.get_value::<Text, _, _>(12)?,
        }))
    }
}
