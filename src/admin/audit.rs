use std::sync::atomic::Ordering;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cursor::List;
use super::{Admin, AdminError, AuditEntry, AuditFilter, Cursor, Page};
use crate::events::log_event;
use crate::limits::AUDIT_ACTOR_CHARS_MAX;
use crate::message::MessageId;
use crate::store::stored::truncated_text;
use crate::store::{AuditRecord, AuditStore, SchemaProblem, StoreError};

/// The audit: who changed something, and why.
///
/// Each operation that changes something writes an entry, in the transaction of the change, to the table that the migration
/// `0000outbox06_audit` creates. Operations with a filter count in their entry what each transaction has changed. Without that table,
/// operations are not recorded, and the log says so once; after [`require_audit`](crate::OutboxBuilder::require_audit) they are
/// refused.
///
/// [`report_processed`](Self::report_processed) is recorded only from a handle with an actor or a reason: without, it is a consumer that
/// reports, at the rate of the messages.
impl Admin {
    /// The same handle for somebody: a person, or a job. Their name is recorded with whatever they change, and its first 255
    /// characters are kept. Without a name, operations are recorded as nobody's.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::AuditFilter;
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// admin.acting_as("alice").because("ticket 17").pause("orders").await?;
    ///
    /// let page = admin.audit(&AuditFilter::new().actor("alice"), None, 50).await?;
    /// let entry = &page.items[0];
    /// assert_eq!((&*entry.action, entry.reason.as_deref(), entry.changed), ("pause", Some("ticket 17"), 1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use = "this handle acts for them, the other one does not"]
    pub fn acting_as(&self, actor: impl AsRef<str>) -> Self {
        let clean = actor.as_ref().chars().filter(|&c| c != '\0').take(AUDIT_ACTOR_CHARS_MAX);
        Self { actor: Some(clean.collect::<String>().into()), ..self.clone() }
    }

    /// The same handle with a reason, which is recorded with whatever is changed.
    #[must_use = "this handle has the reason, the other one does not"]
    pub fn because(&self, reason: impl AsRef<str>) -> Self {
        Self { reason: Some(truncated_text(reason.as_ref()).into()), ..self.clone() }
    }

    /// The same handle, but changes are refused while they cannot be recorded, as with
    /// [`OutboxBuilder::require_audit`](crate::OutboxBuilder::require_audit).
    #[must_use = "this handle refuses, the other one does not"]
    pub fn require_audit(&self) -> Self {
        Self { is_audit_required: true, ..self.clone() }
    }

    /// Records that somebody stopped an operation of several transactions, by dropping its future: `action` is the method, such as
    /// `purge_all`. The entry of the operation itself has no end and says how far it came.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, it may or may not be recorded.
    pub async fn record_stop(&self, action: &str) -> Result<(), AdminError> {
        let record = self.record_with("stop", &json!({ "action": action })).await?;
        if let Some((store, record)) = self.store.audit().zip(record) {
            store.note(&record).await?;
        }
        Ok(())
    }

    /// A page of the audit, the latest first: at most `entries_max`, after `after`.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::admin::AuditFilter;
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// let purges = AuditFilter::new().action("purge_all");
    /// let mut after = None;
    /// loop {
    ///     let page = admin.audit(&purges, after.as_ref(), 100).await?;
    ///     for entry in &page.items {
    ///         println!("{:?} {:?} purged {} of {:?}", entry.began_at, entry.actor, entry.changed, entry.filter);
    ///     }
    ///     after = page.next;
    ///     if after.is_none() { break }
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`EmptyPage`](AdminError::EmptyPage), [`WrongCursor`](AdminError::WrongCursor), or a database error, such as that the migration
    /// `0000outbox06_audit` was not run.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        after: Option<&Cursor>,
        entries_max: usize,
    ) -> Result<Page<AuditEntry>, AdminError> {
        let after = Cursor::begin(List::Audit, after, entries_max)?;
        let store = self.store.audit().ok_or(AdminError::Unsupported)?;
        if filter.is_impossible() {
            return Ok(Page::default());
        }
        let entries = store.audit_entries(filter, after.as_ref(), entries_max).await?;
        Ok(Page::of(List::Audit, entries, entries_max, AuditEntry::cursor))
    }

    /// What an operation on one message records. `None`: it is not recorded.
    pub(super) async fn record_one(
        &self,
        action: &'static str,
        message_id: MessageId,
    ) -> Result<Option<AuditRecord>, AdminError> {
        let record = self.begin_record(action).await?;
        Ok(record.map(|record| AuditRecord { message_id: Some(message_id), ..record }))
    }

    /// What an operation of one transaction records.
    pub(super) async fn record_with(
        &self,
        action: &'static str,
        filter: &Value,
    ) -> Result<Option<AuditRecord>, AdminError> {
        let record = self.begin_record(action).await?;
        Ok(record.map(|record| AuditRecord { filter: Some(filter.to_string().into()), ..record }))
    }

    /// What an operation of several transactions records, until it [ends](Self::end_record).
    pub(super) async fn record_many(
        &self,
        action: &'static str,
        filter: &(impl Serialize + Sync),
    ) -> Result<Option<AuditRecord>, AdminError> {
        let filter = json!(filter);
        let record = self.record_with(action, &filter).await?;
        Ok(record.map(|record| AuditRecord { ends: false, ..record }))
    }

    pub(super) async fn end_record(&self, record: Option<&AuditRecord>) -> Result<(), AdminError> {
        if let Some((store, record)) = self.store.audit().zip(record) {
            store.end_operation(record.id).await?;
        }
        Ok(())
    }

    /// Whether somebody acts, and not a consumer that reports.
    pub(super) fn is_attributed(&self) -> bool {
        self.actor.is_some() || self.reason.is_some()
    }

    async fn begin_record(&self, action: &'static str) -> Result<Option<AuditRecord>, AdminError> {
        let is_required = self.is_audit_required || self.outbox.audit_policy().is_required;
        let Some(store) = self.store.audit() else {
            return if is_required { Err(AdminError::Unsupported) } else { Ok(None) };
        };
        if !self.can_record(store, is_required).await? {
            return Ok(None);
        }
        Ok(Some(AuditRecord {
            id: Uuid::now_v7(),
            actor: self.actor.clone(),
            action,
            message_id: None,
            filter: None,
            reason: self.reason.clone(),
            ends: true,
        }))
    }

    /// Whether the table is there.
    async fn can_record(&self, store: &dyn AuditStore, is_required: bool) -> Result<bool, AdminError> {
        match store.check_audit().await {
            Ok(()) => Ok(true),
            Err(StoreError::Schema(problem @ SchemaProblem::NotMigrated { .. })) if !is_required => {
                if !self.is_audit_missing.swap(true, Ordering::Relaxed) {
                    log_event!(AUDIT_MISSING, %problem);
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
