use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::MemoryStore;
use super::faults::Call;
use crate::store::{AuditCursor, AuditEntry, AuditFilter, AuditRecord, AuditStore, StoreError};

#[async_trait]
impl AuditStore for MemoryStore {
    async fn check_audit(&self) -> Result<(), StoreError> {
        self.call(Call::Audit, |_| ()).await
    }

    async fn note(&self, record: &AuditRecord) -> Result<(), StoreError> {
        self.call(Call::Audit, |state| state.recorded(Some(record), |_| 1, |_| ())).await
    }

    async fn end_operation(&self, id: Uuid) -> Result<(), StoreError> {
        self.call(Call::Audit, |state| state.end_operation(id)).await
    }

    async fn audit_entries(
        &self,
        filter: &AuditFilter,
        after: Option<&AuditCursor>,
        entries_max: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.call(Call::Audit, |state| state.audit_entries(filter, after, entries_max)).await
    }

    async fn prune_audit(&self, age: Duration, entries_max: usize) -> Result<usize, StoreError> {
        self.call(Call::Prune, |state| state.prune_audit(age, entries_max)).await
    }
}
