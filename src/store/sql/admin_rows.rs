//! Dead letters and sent messages, read from rows.

use diesel::deserialize::Result;
use diesel::row::NamedRow;

use super::dialect::count;
use super::read_value::Columns;
use super::rows::FromRow;
use super::search::failed_attempts;
use crate::message::MessageId;
use crate::store::{
    DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterGroup, DeadLetterReason, MessageKey, ProcessedOutcome,
    SentCount, SentCursor, SentMessage,
};

/// What determines a message's lane: `message_id, topic, lane, key`.
impl FromRow for MessageKey {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self {
            message_id: DB::message_id(row, 0)?,
            topic: DB::text(row, 1)?.into(),
            key: DB::optional_text(row, 3)?,
            lane: lane(row, 2)?,
        })
    }
}

/// How many dead letters a topic has for a reason.
impl FromRow for DeadLetterCount {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let count = count(DB::number(row, 2)?);
        let reason = DeadLetterReason::of(&DB::text(row, 1)?);
        Ok(Self { topic: DB::text(row, 0)?.into(), reason, class: None, count })
    }
}

/// `topic, reason word, class`, how many match, and how many were read.
impl FromRow for DeadLetterGroup {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let (topic, class) = (DB::text(row, 0)?.into(), DB::optional_text(row, 2)?);
        let reason = DeadLetterReason::of(&DB::text(row, 1)?);
        let (count, read) = (count(DB::number(row, 3)?), count(DB::number(row, 4)?));
        Ok(Self { matching: DeadLetterCount { topic, reason, class, count }, read })
    }
}

/// The position of a dead letter: `message_id, topic, dead_at`.
impl FromRow for DeadLetterCursor {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let topic = DB::text(row, 1)?.into();
        Ok(Self { topic, dead_at: DB::instant(row, 2)?, message_id: DB::message_id(row, 0)? })
    }
}

/// `message_id, topic, lane, key, kind, headers, payload, created_at, dead_at, attempts, failures, errors, reason`.
impl FromRow for DeadLetter {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self {
            message_id: DB::message_id(row, 0)?,
            topic: DB::text(row, 1)?.into(),
            lane: lane(row, 2)?,
            key: DB::optional_text(row, 3)?,
            kind: DB::text(row, 4)?,
            headers_json: DB::text(row, 5)?,
            payload: DB::bytes(row, 6)?,
            created_at: DB::instant(row, 7)?,
            dead_at: DB::instant(row, 8)?,
            attempts: counter(row, 9)?,
            failures: counter(row, 10)?,
            errors: failed_attempts(&DB::text(row, 11)?),
            reason: DB::text(row, 12)?,
        })
    }
}

/// `message_id, topic, lane, key, kind, headers, payload, created_at, sent_at, attempts, failures, awaits_processing`, whether it
/// is processed, and when (any value if it is not); then `id, deliver_at`, and whether it was requeued.
impl FromRow for SentMessage {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let (awaits, is_processed) = (DB::number(row, 11)?, DB::number(row, 12)?);
        let processed_at = if is_processed == 0 { None } else { Some(DB::instant(row, 13)?) };
        Ok(Self {
            message_id: DB::message_id(row, 0)?,
            topic: DB::text(row, 1)?.into(),
            lane: lane(row, 2)?,
            key: DB::optional_text(row, 3)?,
            kind: DB::text(row, 4)?,
            headers_json: DB::text(row, 5)?,
            payload: DB::bytes(row, 6)?,
            created_at: DB::instant(row, 7)?,
            sent_at: DB::instant(row, 8)?,
            attempts: counter(row, 9)?,
            failures: counter(row, 10)?,
            awaits_processing: awaits != 0,
            processed_at,
            id: DB::number(row, 14)?,
            deliver_at: DB::optional_raw_instant(row, 15)?.map(DB::at).transpose()?,
            is_requeued: DB::number(row, 16)? != 0,
        })
    }
}

/// The position of a sent message: `message_id, sent_at`.
impl FromRow for SentCursor {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self { message_id: DB::message_id(row, 0)?, sent_at: DB::instant(row, 1)? })
    }
}

/// How many there are, and how many of them are unprocessed.
impl FromRow for SentCount {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        Ok(Self { sent: count(DB::number(row, 0)?), unprocessed: count(DB::number(row, 1)?) })
    }
}

/// What became of a report: 0 recorded, 1 recorded before, 2 waits for its message.
impl FromRow for (MessageId, ProcessedOutcome) {
    fn from_row<'a, DB: Columns>(row: &impl NamedRow<'a, DB>) -> Result<Self> {
        let outcome = match DB::number(row, 1)? {
            0 => ProcessedOutcome::Processed,
            1 => ProcessedOutcome::AlreadyProcessed,
            _ => ProcessedOutcome::NotSettledYet,
        };
        Ok((DB::message_id(row, 0)?, outcome))
    }
}

/// None outside of lanes.
pub(crate) fn lane<'a, DB: Columns>(row: &impl NamedRow<'a, DB>, column: usize) -> Result<Option<u16>> {
    Ok(u16::try_from(DB::lane(row, column)?).ok())
}

/// Attempts, or failures.
pub(crate) fn counter<'a, DB: Columns>(row: &impl NamedRow<'a, DB>, column: usize) -> Result<u32> {
    Ok(u32::try_from(DB::int(row, column)?).unwrap_or(0))
}
