//! Rows that people ask for: the columns are the same in every database, and how each has ids and instants in them is all
//! that it says itself.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

use std::time::SystemTime;

use diesel::backend::Backend;
use diesel::deserialize::{FromSql, QueryableByName, Result};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};

use super::dead_search::failure_notes;
use super::statement::count;
use super::{DeadCount, DeadLetter, DeadMark, Keyed, PausedTopic};
use crate::message::MessageId;

/// How a database has in its rows what others have in another way.
pub(crate) trait Columns: Backend {
    fn message_id<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<MessageId>;

    fn instant<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<SystemTime>;

    /// As the column has it: below zero outside of lanes.
    fn lane<'a>(row: &impl NamedRow<'a, Self>, column: usize) -> Result<i32>;
}

/// A message by its id.
pub(crate) struct MessageIdRow(pub(crate) MessageId);

impl<DB: Columns> QueryableByName<DB> for MessageIdRow {
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::message_id(row, 0).map(Self)
    }
}

/// What a message's lane depends on: `message_id, topic, lane, key`.
pub(crate) struct KeyedRow(pub(crate) Keyed);

impl<DB: Columns> QueryableByName<DB> for KeyedRow
where
    String: FromSql<Text, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(1)?;
        Ok(Self(Keyed {
            message_id: DB::message_id(row, 0)?,
            topic: topic.into(),
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            lane: u16::try_from(DB::lane(row, 2)?).ok(),
        }))
    }
}

/// A moment.
pub(crate) struct InstantRow(pub(crate) SystemTime);

impl<DB: Columns> QueryableByName<DB> for InstantRow {
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        DB::instant(row, 0).map(Self)
    }
}

/// How many there are of a topic for a reason.
pub(crate) struct CountRow(pub(crate) DeadCount);

impl<DB: Backend> QueryableByName<DB> for CountRow
where
    String: FromSql<Text, DB>,
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        let letters = count(row.get_value::<BigInt, _, _>(2)?);
        Ok(Self(DeadCount { topic: topic.into(), reason: row.get_value::<Text, _, _>(1)?, letters }))
    }
}

/// A paused topic.
pub(crate) struct PausedRow(pub(crate) PausedTopic);

impl<DB: Columns> QueryableByName<DB> for PausedRow
where
    String: FromSql<Text, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(0)?;
        Ok(Self(PausedTopic { topic: topic.into(), since: DB::instant(row, 1)? }))
    }
}

/// Where a dead letter is.
pub(crate) struct MarkRow(pub(crate) DeadMark);

impl<DB: Columns> QueryableByName<DB> for MarkRow
where
    String: FromSql<Text, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let (message_id, dead_at) = (DB::message_id(row, 0)?, DB::instant(row, 2)?);
        Ok(Self(DeadMark { topic: topic.into(), dead_at, message_id }))
    }
}

/// A dead letter.
pub(crate) struct LetterRow(pub(crate) DeadLetter);

impl<DB: Columns> QueryableByName<DB> for LetterRow
where
    String: FromSql<Text, DB>,
    Vec<u8>: FromSql<Binary, DB>,
    i32: FromSql<Integer, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let attempts: i32 = row.get_value::<Integer, _, _>(9)?;
        let failures: i32 = row.get_value::<Integer, _, _>(10)?;
        let errors: String = row.get_value::<Text, _, _>(11)?;
        Ok(Self(DeadLetter {
            message_id: DB::message_id(row, 0)?,
            topic: topic.into(),
            lane: u16::try_from(DB::lane(row, 2)?).ok(),
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            kind: row.get_value::<Text, _, _>(4)?,
            headers_json: row.get_value::<Text, _, _>(5)?,
            payload: row.get_value::<Nullable<Binary>, _, _>(6)?,
            created_at: DB::instant(row, 7)?,
            dead_at: DB::instant(row, 8)?,
            attempts: u32::try_from(attempts).unwrap_or(0),
            failures: u32::try_from(failures).unwrap_or(0),
            errors: failure_notes(&errors),
            reason: row.get_value::<Text, _, _>(12)?,
        }))
    }
}
