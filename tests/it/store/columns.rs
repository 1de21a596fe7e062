//! Rows as the tests read them back, the same columns from each database: `message_id` as bytes, instants as `micros` since
//! 1970.

use std::time::{Duration, SystemTime};

use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Binary, Integer, Text};
use diesel_outbox::internals::store::{DeadLetterRow, LiveRow, RowKey, StoredError};
use uuid::Uuid;

#[derive(QueryableByName)]
pub(super) struct KeyRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Binary)]
    message_id: Vec<u8>,
}

impl KeyRow {
    pub(super) fn key(&self) -> RowKey {
        RowKey { id: self.id, message_id: Uuid::from_slice(&self.message_id).expect("16 bytes").into() }
    }
}

#[derive(QueryableByName)]
struct History {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Integer)]
    epoch: i32,
    #[diesel(sql_type = Integer)]
    attempts: i32,
    #[diesel(sql_type = Integer)]
    failures: i32,
    #[diesel(sql_type = Text)]
    errors: String,
}

#[derive(QueryableByName)]
pub(super) struct LiveColumns {
    #[diesel(embed)]
    key: KeyRow,
    #[diesel(embed)]
    history: History,
    #[diesel(embed)]
    due_at: Instant,
}

impl LiveColumns {
    pub(super) fn row(self) -> LiveRow {
        let Self { key, history, due_at } = self;
        LiveRow {
            key: key.key(),
            errors: stored_errors(&history.errors),
            topic: history.topic.into(),
            due_at: due_at.time(),
            epoch: history.epoch,
            attempts: history.attempts as u32,
            failures: history.failures as u32,
        }
    }
}

#[derive(QueryableByName)]
pub(super) struct DeadLetterColumns {
    #[diesel(embed)]
    key: KeyRow,
    #[diesel(embed)]
    history: History,
    #[diesel(sql_type = Text)]
    reason: String,
}

impl DeadLetterColumns {
    pub(super) fn row(self) -> DeadLetterRow {
        let Self { key, history, reason } = self;
        DeadLetterRow {
            key: key.key(),
            errors: stored_errors(&history.errors),
            topic: history.topic.into(),
            epoch: history.epoch,
            attempts: history.attempts as u32,
            failures: history.failures as u32,
            reason,
        }
    }
}

#[derive(QueryableByName)]
pub(super) struct Instant {
    #[diesel(sql_type = BigInt)]
    micros: i64,
}

impl Instant {
    pub(super) fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.micros.try_into().expect("after 1970"))
    }
}

/// Every stored error with its class and text. Each must have a valid time.
fn stored_errors(column: &str) -> Vec<StoredError> {
    let errors: Vec<serde_json::Value> = serde_json::from_str(column).expect("a JSON array");
    let text = |error: &serde_json::Value, field: &str| error[field].as_str().expect("a text").to_owned();
    let kept = errors.iter().map(|error| {
        assert!(text(error, "at").ends_with('Z'), "{error}");
        StoredError { class: text(error, "class"), error: text(error, "error") }
    });
    kept.collect()
}
