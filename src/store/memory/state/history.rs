use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::admin::message_key;
use super::writes::Settled;
use super::{MemoryRow, Micros, State};
use crate::message::{Envelope, MessageId};
use crate::retention::{DAY, Keep};
use crate::store::{
    HistoryRow, MessageKey, ProcessedOutcome, Pruned, Requeue, RowKey, SentCount, SentCursor, SentMessage, SentScan,
    StoredError,
};

/// A sent message with all its columns.
#[derive(Debug)]
pub(in crate::store::memory) struct MemorySentMessage {
    key: RowKey,
    envelope: Envelope,
    delayed: bool,
    lane: Option<u16>,
    epoch: i32,
    attempts: u32,
    failures: u32,
    errors: Vec<StoredError>,
    poisoned: bool,
    sent_at: Micros,
    /// The first day on which it is no longer kept, in days since 1970.
    falls_on: i64,
    awaits_processing: bool,
    processed_at: Option<Micros>,
}

impl Micros {
    fn day(self) -> i64 {
        self.0.div_euclid(i64::try_from(DAY.as_micros()).unwrap_or(i64::MAX))
    }
}

impl MemorySentMessage {
    fn message(&self, processed_reports: &BTreeMap<MessageId, Micros>) -> SentMessage {
        SentMessage {
            id: self.key.id,
            message_id: self.key.message_id,
            topic: Arc::clone(&self.envelope.topic),
            lane: self.lane,
            key: self.envelope.key.clone(),
            kind: self.envelope.kind.clone(),
            headers_json: self.envelope.headers.to_json(),
            payload: self.envelope.payload.clone(),
            created_at: self.envelope.created_at,
            deliver_at: self.envelope.deliver_at,
            sent_at: self.sent_at.as_system_time(),
            attempts: self.attempts,
            failures: self.failures,
            is_requeued: self.lane.is_some() && i64::from(self.epoch) > i64::from(self.failures),
            awaits_processing: self.awaits_processing,
            processed_at: self.processed_at(processed_reports).map(Micros::as_system_time),
        }
    }

    /// A report that is stored separately may say that the message is processed.
    fn processed_at(&self, processed_reports: &BTreeMap<MessageId, Micros>) -> Option<Micros> {
        self.processed_at.or_else(|| processed_reports.get(&self.key.message_id).copied())
    }

    fn is_unprocessed(&self, processed_reports: &BTreeMap<MessageId, Micros>) -> bool {
        self.awaits_processing && self.processed_at(processed_reports).is_none()
    }
}

impl State {
    pub(in crate::store::memory) fn settle_into_history(&mut self, rows: &[HistoryRow]) -> Settled {
        let keys: Vec<RowKey> = rows.iter().map(|row| row.key).collect();
        let (skipped, free) = self.partition_locked(&keys);
        let mut removed = Vec::new();
        for row in rows.iter().filter(|row| free.contains(&row.key)) {
            let Some(sent) = self.remove(row.key) else { continue };
            removed.push(sent.key);
            self.keep(sent, row.keep);
        }
        Settled { removed, skipped }
    }

    pub(in crate::store::memory) fn settle_dead_letters_into_history(&mut self, rows: &[HistoryRow]) -> usize {
        let (gone, remaining): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.dead).into_iter().partition(|dead| rows.iter().any(|row| row.key == dead.row.key));
        self.dead = remaining;
        let count = gone.len();
        for dead in gone {
            let keep = rows.iter().find(|row| row.key == dead.row.key).map(|row| row.keep);
            let row = dead.into_row();
            if let Some(keep) = keep {
                self.keep(row, keep);
            }
        }
        count
    }

    fn keep(&mut self, row: MemoryRow, keep: Keep) {
        let now = self.clock.now();
        let message_id = row.key.message_id;
        let processed_at = if keep.awaits_processing { self.processed_reports.remove(&message_id) } else { None };
        let MemoryRow { key, envelope, delayed, lane, epoch, attempts, failures, errors, poisoned, .. } = row;
        let sent = MemorySentMessage {
            key,
            envelope,
            delayed,
            lane,
            epoch,
            attempts,
            failures,
            errors,
            poisoned,
            sent_at: now,
            falls_on: now.day() + i64::from(keep.days) + 1,
            awaits_processing: keep.awaits_processing,
            processed_at,
        };
        self.history.entry(message_id).or_insert(sent);
    }

    pub(in crate::store::memory) fn prune(&mut self, rows_max: usize) -> Pruned {
        let today = self.clock.now().day();
        let expired = self.history.values().filter(|sent| sent.falls_on <= today).map(|sent| sent.key.message_id);
        let expired: Vec<MessageId> = expired.take(rows_max).collect();
        for message in &expired {
            self.history.remove(message);
        }
        Pruned { rows: expired.len(), more: expired.len() == rows_max }
    }

    pub(in crate::store::memory) fn prune_dead_letters(
        &mut self,
        topic: &str,
        age: Duration,
        rows_max: usize,
    ) -> usize {
        let (before, oldest) = (self.dead.len(), self.clock.now().minus(age));
        let mut left = rows_max;
        self.dead.retain(|dead| {
            let is_expired = left > 0 && &*dead.row.topic == topic && dead.dead_at < oldest;
            left -= usize::from(is_expired);
            !is_expired
        });
        before - self.dead.len()
    }

    pub(in crate::store::memory) fn apply_processed_reports(&mut self, age: Duration, rows_max: usize) -> usize {
        let oldest = self.clock.now().minus(age);
        let old = self
            .processed_reports
            .iter()
            .filter(|(_, reported_at)| **reported_at < oldest)
            .map(|(message, at)| (*message, *at));
        let old: Vec<(MessageId, Micros)> = old.take(rows_max).collect();
        for (message, reported_at) in &old {
            self.processed_reports.remove(message);
            if let Some(sent) = self.history.get_mut(message) {
                sent.processed_at.get_or_insert(*reported_at);
            }
        }
        old.len()
    }

    pub(in crate::store::memory) fn sent(&self, message: MessageId) -> Option<SentMessage> {
        self.history.get(&message).map(|sent| sent.message(&self.processed_reports))
    }

    pub(in crate::store::memory) fn sent_of_key(
        &self,
        topic: &str,
        key: &str,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Vec<SentMessage> {
        let of_key =
            |sent: &MemorySentMessage| &*sent.envelope.topic == topic && sent.envelope.key.as_deref() == Some(key);
        self.page(of_key, after, rows_max)
    }

    pub(in crate::store::memory) fn unprocessed(
        &self,
        topic: &str,
        age_min: Duration,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Vec<SentMessage> {
        let latest = self.clock.now().minus(age_min);
        let is_late = |sent: &MemorySentMessage| {
            &*sent.envelope.topic == topic && sent.is_unprocessed(&self.processed_reports) && sent.sent_at < latest
        };
        self.page(is_late, after, rows_max)
    }

    pub(in crate::store::memory) fn sent_scan_end(
        &self,
        after: MessageId,
        until: MessageId,
        rows_max: usize,
    ) -> Option<MessageId> {
        let mut ids: Vec<MessageId> = self.history.keys().copied().filter(|id| (after..=until).contains(id)).collect();
        ids.retain(|id| *id != after);
        ids.sort_unstable();
        ids.get(rows_max.saturating_sub(1)).copied()
    }

    pub(in crate::store::memory) fn sent_in_scan(&self, scan: &SentScan) -> Vec<SentMessage> {
        let SentScan { topic, from, before, after, until } = scan;
        let is_wanted = |sent: &&MemorySentMessage| {
            let (id, envelope) = (sent.key.message_id, &sent.envelope);
            envelope.topic == *topic && (from..before).contains(&&envelope.created_at) && *after < id && id <= *until
        };
        let wanted = self.history.values().filter(is_wanted);
        let mut found: Vec<SentMessage> = wanted.map(|sent| sent.message(&self.processed_reports)).collect();
        found.sort_unstable_by_key(|sent| sent.message_id);
        found
    }

    pub(in crate::store::memory) fn count_sent(&self, topic: &str, count_max: usize) -> SentCount {
        let of_topic = || self.history.values().filter(|sent| &*sent.envelope.topic == topic);
        let unprocessed = of_topic().filter(|sent| sent.is_unprocessed(&self.processed_reports)).count().min(count_max);
        SentCount { sent: of_topic().count().min(count_max), unprocessed }
    }

    pub(in crate::store::memory) fn report_processed(
        &mut self,
        messages: &[MessageId],
    ) -> Vec<(MessageId, ProcessedOutcome)> {
        let now = self.clock.now();
        let mut messages = messages.to_vec();
        messages.sort_unstable();
        messages.dedup();
        let report = |message: MessageId| {
            let outcome = match self.history.get_mut(&message) {
                Some(sent) if sent.processed_at(&self.processed_reports).is_some() => {
                    ProcessedOutcome::AlreadyProcessed
                }
                Some(sent) => {
                    sent.processed_at = Some(now);
                    ProcessedOutcome::Processed
                }
                None => {
                    self.processed_reports.entry(message).or_insert(now);
                    ProcessedOutcome::NotSettledYet
                }
            };
            (message, outcome)
        };
        messages.into_iter().map(report).collect()
    }

    pub(in crate::store::memory) fn sent_keys(&self, messages: &[MessageId]) -> Vec<MessageKey> {
        let of = messages.iter().filter_map(|message| self.history.get(message));
        of.map(|sent| message_key(sent.key, &sent.envelope, sent.lane)).collect()
    }

    pub(in crate::store::memory) fn resend(&mut self, requeues: &[Requeue]) -> Vec<MessageId> {
        let now = self.clock.now();
        let lanes: HashMap<MessageId, Option<u16>> =
            requeues.iter().map(|requeue| (requeue.message_id, requeue.lane)).collect();
        let there = self.history.values().filter(|sent| sent.processed_at(&self.processed_reports).is_none());
        let mut back: Vec<RowKey> =
            there.map(|sent| sent.key).filter(|key| lanes.contains_key(&key.message_id)).collect();
        back.sort_unstable_by_key(|key| key.id);
        for key in &back {
            let Some(sent) = self.history.remove(&key.message_id) else { continue };
            let MemorySentMessage { key, envelope, delayed, epoch, errors, poisoned, .. } = sent;
            let row = MemoryRow {
                key,
                envelope,
                delayed,
                lane: lanes.get(&key.message_id).copied().flatten(),
                due_at: now,
                epoch,
                attempts: 0,
                failures: 0,
                errors,
                poisoned,
                locked_by: None,
            };
            let id = self.next_id();
            self.requeue(row, id);
        }
        back.into_iter().map(|key| key.message_id).collect()
    }

    fn page(
        &self,
        is_wanted: impl Fn(&MemorySentMessage) -> bool,
        after: Option<&SentCursor>,
        rows_max: usize,
    ) -> Vec<SentMessage> {
        let place = |cursor: &SentCursor| (cursor.sent_at, cursor.message_id);
        let wanted = self.history.values().filter(|sent| is_wanted(sent));
        let mut found: Vec<SentMessage> = wanted.map(|sent| sent.message(&self.processed_reports)).collect();
        found.sort_by_key(|sent| place(&sent.cursor()));
        found.retain(|sent| after.is_none_or(|after| place(&sent.cursor()) > place(after)));
        found.truncate(rows_max);
        found
    }
}
