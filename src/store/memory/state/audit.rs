use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::State;
use crate::store::{AuditCursor, AuditEntry, AuditFilter, AuditRecord};

impl State {
    /// Runs a write, and records how many it has changed.
    pub(in crate::store::memory) fn recorded<T>(
        &mut self,
        record: Option<&AuditRecord>,
        changed: impl FnOnce(&T) -> usize,
        write: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let written = write(self);
        let changed = changed(&written);
        if let Some(record) = record.filter(|_| changed > 0) {
            self.record(record, changed);
        }
        written
    }

    fn record(&mut self, record: &AuditRecord, changed: usize) {
        let now = self.clock.now().as_system_time();
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        let entry = self.audit.entry(record.id).or_insert_with(|| AuditEntry {
            id: record.id,
            began_at: now,
            ended_at: record.ends.then_some(now),
            actor: text(&record.actor),
            action: record.action.to_owned(),
            message_id: record.message_id,
            filter: text(&record.filter),
            reason: text(&record.reason),
            changed: 0,
        });
        entry.changed += changed;
    }

    pub(in crate::store::memory) fn end_operation(&mut self, id: Uuid) {
        let now = self.clock.now().as_system_time();
        if let Some(entry) = self.audit.get_mut(&id) {
            entry.ended_at = Some(now);
        }
    }

    pub(in crate::store::memory) fn audit_entries(
        &self,
        filter: &AuditFilter,
        after: Option<&AuditCursor>,
        entries_max: usize,
    ) -> Vec<AuditEntry> {
        let place = |cursor: AuditCursor| (cursor.began_at, cursor.id);
        let mut found: Vec<AuditEntry> = self.audit.values().filter(|entry| matches(filter, entry)).cloned().collect();
        found.sort_by_key(|entry| Reverse(place(entry.cursor())));
        found.retain(|entry| after.is_none_or(|after| place(entry.cursor()) < place(*after)));
        found.truncate(entries_max);
        found
    }

    pub(in crate::store::memory) fn prune_audit(&mut self, age: Duration, entries_max: usize) -> usize {
        let oldest = self.clock.now().minus(age).as_system_time();
        let mut old: Vec<_> = self.audit.values().filter(|entry| entry.began_at < oldest).collect();
        old.sort_by_key(|entry| entry.began_at);
        let old: Vec<Uuid> = old.into_iter().map(|entry| entry.id).take(entries_max).collect();
        for id in &old {
            self.audit.remove(id);
        }
        old.len()
    }
}

fn matches(filter: &AuditFilter, entry: &AuditEntry) -> bool {
    let AuditFilter { actor, action, message_id, began_from, began_before } = filter;
    actor.as_ref().is_none_or(|actor| entry.actor.as_deref() == Some(&**actor))
        && action.as_ref().is_none_or(|action| **action == *entry.action)
        && message_id.is_none_or(|message_id| entry.message_id == Some(message_id))
        && began_from.is_none_or(|from| entry.began_at >= from)
        && began_before.is_none_or(|before| entry.began_at < before)
}
