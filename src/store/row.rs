use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::message::{Envelope, MessageId};

/// The identity of a row. The `id` alone is not enough, because a database can use one twice (SQLite without AUTOINCREMENT, a
/// sequence that lags after failover, `TRUNCATE .. RESTART IDENTITY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// The primary key.
    pub id: i64,
    /// The message.
    pub message_id: MessageId,
}

/// Hashes the id only, which is unique at any moment: a row is looked up in several maps, and hashing both fields took as long as
/// the rest of its processing.
impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// Where enqueue wrote a row; the commit hook hands it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowRef {
    /// The primary key, if the INSERT returned it: MySQL's does not.
    pub id: Option<i64>,
    /// The message.
    pub message_id: MessageId,
}

impl RowRef {
    /// The row's identity, if its primary key is known.
    pub fn key(&self) -> Option<RowKey> {
        self.id.map(|id| RowKey { id, message_id: self.message_id })
    }
}

impl From<RowKey> for RowRef {
    fn from(RowKey { id, message_id }: RowKey) -> Self {
        Self { id: Some(id), message_id }
    }
}

/// A row as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which one.
    pub key: RowKey,
    /// The epoch under which it is held.
    pub epoch: i32,
    /// Failures so far, which determine the back-off.
    pub failures: u32,
    /// Whether its last attempt was refused (class `record_refused`). Another record of its batch may have been the cause, so it is
    /// sent alone next, whoever takes it.
    pub is_suspect: bool,
    /// The message; its `attempt` is one more than the attempts spent.
    pub envelope: Envelope,
}

/// A row that could not be decoded.
#[derive(Debug)]
pub struct Poisoned {
    /// Which one.
    pub key: RowKey,
    /// The epoch under which it is held.
    pub epoch: i32,
    /// Its topic.
    pub topic: Arc<str>,
    /// What is wrong with it.
    pub error: Box<dyn std::error::Error + Send + Sync>,
}

/// A row read by a claim or a confirm. Each is decoded on its own, so one bad row stops no other.
#[derive(Debug)]
pub enum Loaded {
    /// It can be sent.
    Row(Row),
    /// It cannot be decoded, and is dead-lettered.
    Poisoned(Poisoned),
}

impl Loaded {
    /// Which row it is.
    pub fn key(&self) -> RowKey {
        match self {
            Self::Row(row) => row.key,
            Self::Poisoned(row) => row.key,
        }
    }
}

/// A handed-over row that was found committed.
#[derive(Debug)]
pub struct Confirmed {
    /// The row.
    pub row: Loaded,
    /// The time left of its initial lease when it was read; zero if it had expired.
    pub lease_left: Duration,
}

/// A row held under an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// Which one.
    pub key: RowKey,
    /// Under which epoch.
    pub epoch: i32,
}

/// Whether a statement waits for rows that others hold locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Skip them.
    Skip,
    /// Wait for them.
    Wait,
}

/// A failure to record on a held row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which one, under which epoch.
    pub held: Held,
    /// How long to wait before the next attempt.
    pub wait: Duration,
    /// Whether an attempt is spent: only if the answer was about the record, not its batch.
    pub spends_attempt: bool,
    /// The class of the failure, as stored on the row.
    pub class: &'static str,
    /// What happened, as stored on the row.
    pub error: String,
}

/// A held row to dead-letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// Which one, under which epoch.
    pub held: Held,
    /// Why.
    pub reason: String,
}

/// Whether no column holds this text: it has a NUL, which PostgreSQL refuses even in a question.
pub(crate) fn is_in_no_column(text: &str) -> bool {
    text.contains('\0')
}
