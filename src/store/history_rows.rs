//! Rows of the history: the columns are the same in every database.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

use diesel::backend::Backend;
use diesel::deserialize::{FromSql, QueryableByName, Result};
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};

use super::admin_rows::Columns;
use super::statement::count;
use super::{Marking, SentCount, SentMark, SentMessage};
use crate::message::MessageId;

/// A sent message: `message_id, topic, lane, key, kind, headers, payload, created_at, sent_at, attempts, failures,
/// awaits_processing`, whether it is processed, and when, or anything where it is not.
pub(crate) struct SentRow(pub(crate) SentMessage);

impl<DB: Columns> QueryableByName<DB> for SentRow
where
    String: FromSql<Text, DB>,
    Vec<u8>: FromSql<Binary, DB>,
    i32: FromSql<Integer, DB>,
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic: String = row.get_value::<Text, _, _>(1)?;
        let attempts: i32 = row.get_value::<Integer, _, _>(9)?;
        let failures: i32 = row.get_value::<Integer, _, _>(10)?;
        let (awaits, is_processed): (i64, i64) =
            (row.get_value::<BigInt, _, _>(11)?, row.get_value::<BigInt, _, _>(12)?);
        let processed_at = if is_processed == 0 { None } else { Some(DB::instant(row, 13)?) };
        Ok(Self(SentMessage {
            message_id: DB::message_id(row, 0)?,
            topic: topic.into(),
            lane: u16::try_from(DB::lane(row, 2)?).ok(),
            key: row.get_value::<Nullable<Text>, _, _>(3)?,
            kind: row.get_value::<Text, _, _>(4)?,
            headers_json: row.get_value::<Text, _, _>(5)?,
            payload: row.get_value::<Nullable<Binary>, _, _>(6)?,
            created_at: DB::instant(row, 7)?,
            sent_at: DB::instant(row, 8)?,
            attempts: u32::try_from(attempts).unwrap_or(0),
            failures: u32::try_from(failures).unwrap_or(0),
            awaits_processing: awaits != 0,
            processed_at,
        }))
    }
}

/// Where a sent message is: `message_id, sent_at`.
pub(crate) struct SentMarkRow(pub(crate) SentMark);

impl<DB: Columns> QueryableByName<DB> for SentMarkRow {
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self(SentMark { message_id: DB::message_id(row, 0)?, sent_at: DB::instant(row, 1)? }))
    }
}

/// How many there are, and how many of them are unprocessed.
pub(crate) struct SentCountRow(pub(crate) SentCount);

impl<DB: Backend> QueryableByName<DB> for SentCountRow
where
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let sent = count(row.get_value::<BigInt, _, _>(0)?);
        Ok(Self(SentCount { sent, unprocessed: count(row.get_value::<BigInt, _, _>(1)?) }))
    }
}

/// What became of a mark: 0 it was made, 1 it was there, 2 it waits.
pub(crate) struct MarkingRow(pub(crate) MessageId, pub(crate) Marking);

impl<DB: Columns> QueryableByName<DB> for MarkingRow
where
    i64: FromSql<BigInt, DB>,
{
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let marking = match row.get_value::<BigInt, i64, _>(1)? {
            0 => Marking::Marked,
            1 => Marking::Already,
            _ => Marking::Ahead,
        };
        Ok(Self(DB::message_id(row, 0)?, marking))
    }
}
