use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::message::{Envelope, MessageId};

/// The identity of a row: never its `id` alone, which a database can give twice (SQLite without AUTOINCREMENT, a
/// sequence that lags after fail-over, `TRUNCATE .. RESTART IDENTITY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// The primary key.
    pub id: i64,
    /// The message.
    pub message_id: MessageId,
}

/// By the id alone, of which there is one at a time: a row is looked for in some maps on its way, and hashing both took as long
/// as the rest of it.
impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// Where enqueue wrote a row; what the hook hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowRef {
    /// The primary key, where the INSERT returned it: MySQL's does not.
    pub id: Option<i64>,
    /// The message.
    pub message_id: MessageId,
}

impl RowRef {
    /// The row's identity, where its primary key is known.
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
    /// Failures so far, which drive the back-off.
    pub failures: u32,
    /// Whether it has failed, the last time by a refusal (class `record_refused`): perhaps because of another record of its
    /// batch, so it goes with nothing beside it next, whoever takes it.
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

/// A row read by a claim or a confirm: each is decoded on its own, so that one bad row stops no other.
#[derive(Debug)]
pub enum Loaded {
    /// It can be sent.
    Row(Row),
    /// It cannot be decoded, and goes to the dead letters.
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
    /// What was left of its born lease when it was read; zero where that was over.
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
    /// Pass them over.
    Skip,
    /// Wait for them.
    Wait,
}

/// A failure to note on a held row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which one, under which epoch.
    pub held: Held,
    /// How long to wait before the next attempt.
    pub wait: Duration,
    /// Whether an attempt is spent: only where the answer was about the record, and not about its batch.
    pub spends_attempt: bool,
    /// The class of the failure, as it is kept on the row.
    pub class: &'static str,
    /// What happened, as it is kept on the row.
    pub error: String,
}

/// A held row to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// Which one, under which epoch.
    pub held: Held,
    /// Why.
    pub reason: String,
}
