//! The part of the store interface for the audit: who changed messages through [`Admin`](crate::admin::Admin), and why.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::Serialize;
use uuid::Uuid;

use super::{StoreError, is_in_no_column};
use crate::message::MessageId;
use crate::serialize;

/// What a write records in the audit, in its own transaction. A write that changes nothing records nothing.
///
/// Several writes with the same record are one operation with one entry, which counts what all of them have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The operation.
    pub id: Uuid,
    /// Who does it.
    pub actor: Option<Arc<str>>,
    /// The method of [`Admin`](crate::admin::Admin).
    pub action: &'static str,
    /// The message, if the operation is on one.
    pub message_id: Option<MessageId>,
    /// What else it was given, as JSON.
    pub filter: Option<Arc<str>>,
    /// Why it is done.
    pub reason: Option<Arc<str>>,
    /// Whether the operation ends with this write.
    pub ends: bool,
}

/// A database with an audit. From [`Store::audit`](super::Store::audit).
///
/// # Errors
/// As for [`Store`](super::Store).
///
/// # Cancel safety
/// As for [`Store`](super::Store): every call may be repeated.
#[async_trait]
pub trait AuditStore: fmt::Debug + Send + Sync {
    /// Checks that writes can be recorded. Asks the database at first, and if the table was missing now and then.
    ///
    /// # Errors
    /// [`SchemaProblem::NotMigrated`](super::SchemaProblem::NotMigrated) if the table is missing.
    async fn check_audit(&self) -> Result<(), StoreError>;

    /// Records something that itself changes no message.
    async fn note(&self, record: &AuditRecord) -> Result<(), StoreError>;

    /// Records the end of an operation. If it has changed nothing, it has no entry, and nothing is written.
    async fn end_operation(&self, id: Uuid) -> Result<(), StoreError>;

    /// Entries after `after`, at most `entries_max`: the latest first.
    async fn audit_entries(
        &self,
        filter: &AuditFilter,
        after: Option<&AuditCursor>,
        entries_max: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Removes entries of operations that began longer ago than `age`, at most `entries_max`; returns how many.
    async fn prune_audit(&self, age: Duration, entries_max: usize) -> Result<usize, StoreError>;
}

/// An operation of [`Admin`](crate::admin::Admin) that changed something, as the database recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The operation.
    pub id: Uuid,
    /// When its first transaction wrote, by the database's clock.
    #[serde(serialize_with = "serialize::instant")]
    pub began_at: SystemTime,
    /// When it ended, by the database's clock. `None` while it runs, and for good if it failed, or was cancelled, or its process
    /// died: then `changed` says how far it came.
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub ended_at: Option<SystemTime>,
    /// Who did it: [`Admin::acting_as`](crate::admin::Admin::acting_as). `None` if nobody was named.
    pub actor: Option<String>,
    /// What was done: the name of the method of [`Admin`](crate::admin::Admin).
    pub action: String,
    /// The message, if the operation was on one.
    pub message_id: Option<MessageId>,
    /// What else the method was given, as JSON: the filter, the topic, or the id of the message that replaced this one.
    #[serde(serialize_with = "serialize::json_or_none")]
    pub filter: Option<String>,
    /// Why it was done: [`Admin::because`](crate::admin::Admin::because).
    pub reason: Option<String>,
    /// How many messages it has changed, or how many topics.
    pub changed: usize,
}

impl AuditEntry {
    /// The position of this entry, after which a next page begins.
    #[doc(hidden)]
    pub fn cursor(&self) -> AuditCursor {
        AuditCursor { began_at: self.began_at, id: self.id }
    }
}

/// Selects entries of the audit: those that meet all of its conditions. Without a condition, all of them.
///
/// ```
/// use diesel_outbox::admin::AuditFilter;
/// let filter = AuditFilter::new().actor("alice").action("purge_all");
/// assert_ne!(filter, AuditFilter::new());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub(crate) actor: Option<Arc<str>>,
    pub(crate) action: Option<Arc<str>>,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) began_from: Option<SystemTime>,
    pub(crate) began_before: Option<SystemTime>,
}

impl AuditFilter {
    /// Every entry, to be narrowed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only of this actor.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Only of this method of [`Admin`](crate::admin::Admin), such as `purge_all`.
    #[must_use]
    pub fn action(mut self, action: impl Into<Arc<str>>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// Only operations on this message alone. Operations with a filter have no message id, whichever messages they changed.
    #[must_use]
    pub fn message_id(mut self, message_id: MessageId) -> Self {
        self.message_id = Some(message_id);
        self
    }

    /// Begun at this moment or later.
    #[must_use]
    pub fn began_from(mut self, from: SystemTime) -> Self {
        self.began_from = Some(from);
        self
    }

    /// Begun before this moment.
    #[must_use]
    pub fn began_before(mut self, before: SystemTime) -> Self {
        self.began_before = Some(before);
        self
    }

    /// Whether the filter can match no entry at all.
    pub(crate) fn is_impossible(&self) -> bool {
        [&self.actor, &self.action].into_iter().flatten().any(|text| is_in_no_column(text))
    }
}

/// A position in the audit, which is ordered by time, the latest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditCursor {
    pub(crate) began_at: SystemTime,
    pub(crate) id: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_json() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_709_251_199_250);
        let mut entry = AuditEntry {
            id: Uuid::nil(),
            began_at: at,
            ended_at: None,
            actor: Some("alice".to_owned()),
            action: "redrive_all".to_owned(),
            message_id: None,
            filter: Some(r#"{"topic":"orders"}"#.to_owned()),
            reason: None,
            changed: 3,
        };
        let expected = serde_json::json!({
            "id": Uuid::nil(), "began_at": "2024-02-29T23:59:59.250000Z", "ended_at": null, "actor": "alice", "action": "redrive_all",
            "message_id": null, "filter": {"topic": "orders"}, "reason": null, "changed": 3,
        });
        assert_eq!(serde_json::to_value(&entry).unwrap(), expected);
        entry.filter = Some("by hand".to_owned());
        assert_eq!(serde_json::to_value(&entry).unwrap()["filter"], "by hand");
    }
}
