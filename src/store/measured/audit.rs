//! The record of what [`Admin`](crate::admin::Admin) has done. A relay only removes what has expired.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::Measured;
use super::timer::Statement;
use crate::store::{AuditCursor, AuditEntry, AuditFilter, AuditRecord, AuditStore, StoreError};

impl Measured {
    fn audit_store(&self) -> &dyn AuditStore {
        self.store.audit().unwrap_or_else(|| unreachable!("it is asked for only where there is one"))
    }
}

#[async_trait]
impl AuditStore for Measured {
    async fn check_audit(&self) -> Result<(), StoreError> {
        self.audit_store().check_audit().await
    }

    async fn note(&self, record: &AuditRecord) -> Result<(), StoreError> {
        self.audit_store().note(record).await
    }

    async fn end_operation(&self, id: Uuid) -> Result<(), StoreError> {
        self.audit_store().end_operation(id).await
    }

    async fn audit_entries(
        &self,
        filter: &AuditFilter,
        after: Option<&AuditCursor>,
        entries_max: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.audit_store().audit_entries(filter, after, entries_max).await
    }

    async fn prune_audit(&self, age: Duration, entries_max: usize) -> Result<usize, StoreError> {
        self.timer.time(Statement::PruneAudit, self.audit_store().prune_audit(age, entries_max)).await
    }
}
