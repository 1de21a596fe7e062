// Rows as our own tests read them back.
#![cfg_attr(not(feature = "_internals"), allow(unreachable_pub))]

use std::sync::Arc;
use std::time::SystemTime;

use super::RowKey;
use crate::limits::{ERROR_TEXT_BYTES_MAX, cut_error_text};

/// A failure stored on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredError {
    /// Its class.
    pub class: String,
    /// What happened.
    pub error: String,
}

/// A live row as stored in the table, without its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRow {
    /// Which one.
    pub key: RowKey,
    /// Its topic.
    pub topic: Arc<str>,
    /// From when on a sweeper may take it, by the database's clock.
    pub due_at: SystemTime,
    /// Its epoch.
    pub epoch: i32,
    /// Attempts spent.
    pub attempts: u32,
    /// Failures so far.
    pub failures: u32,
    /// The last failures, oldest first.
    pub errors: Vec<StoredError>,
}

/// A dead letter as stored in the table, without its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterRow {
    /// Which row it was.
    pub key: RowKey,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its epoch when it was dead-lettered.
    pub epoch: i32,
    /// Attempts spent.
    pub attempts: u32,
    /// Failures in all.
    pub failures: u32,
    /// The last failures, oldest first.
    pub errors: Vec<StoredError>,
    /// Why it was dead-lettered.
    pub reason: String,
}

/// Foreign text as a row stores it: cut to [`ERROR_TEXT_BYTES_MAX`], and without U+0000, which PostgreSQL refuses. Otherwise one
/// such text would fail its whole batch.
pub(crate) fn truncated_text(text: &str) -> String {
    let clean: String = text.chars().filter(|&c| c != '\0').take(ERROR_TEXT_BYTES_MAX).collect();
    cut_error_text(&clean).to_owned()
}
