use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::{MemoryRow, Micros, State};
use crate::message::{Envelope, MessageId};
use crate::store::{
    CancelOutcome, DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, DeadLetterGroup, DeadLetterReason,
    DeadLetterRow, FailedAttempt, InsertOptions, MessageKey, PausedTopic, Requeue, RowKey, RowRef, SendNowOutcome,
    StoredError,
};

/// A dead letter with all its columns.
#[derive(Debug)]
pub(in crate::store::memory) struct MemoryDeadLetter {
    pub(in crate::store::memory) row: DeadLetterRow,
    pub(super) envelope: Envelope,
    pub(super) delayed: bool,
    pub(super) lane: Option<u16>,
    pub(super) poisoned: bool,
    pub(super) dead_at: Micros,
}

impl MemoryDeadLetter {
    /// The row that it was.
    pub(super) fn into_row(self) -> MemoryRow {
        let Self { row, envelope, delayed, lane, poisoned, dead_at } = self;
        MemoryRow {
            key: row.key,
            envelope,
            delayed,
            lane,
            due_at: dead_at,
            epoch: row.epoch,
            attempts: row.attempts,
            failures: row.failures,
            errors: row.errors,
            poisoned,
            locked_by: None,
        }
    }

    fn to_dead_letter(&self) -> DeadLetter {
        let Self { row, envelope, lane, dead_at, .. } = self;
        DeadLetter {
            message_id: row.key.message_id,
            topic: Arc::clone(&row.topic),
            lane: *lane,
            key: envelope.key.clone(),
            kind: envelope.kind.clone(),
            headers_json: envelope.headers.to_json(),
            payload: envelope.payload.clone(),
            created_at: envelope.created_at,
            dead_at: dead_at.as_system_time(),
            attempts: row.attempts,
            failures: row.failures,
            errors: failed_attempts(&row.errors),
            reason: row.reason.clone(),
        }
    }
}

impl State {
    pub(in crate::store::memory) fn cancel_delayed(&mut self, message: MessageId) -> CancelOutcome {
        let now = self.clock.now();
        let Some(row) = self.ids.get(&message).and_then(|id| self.rows.get(id)).filter(|row| row.delayed) else {
            return CancelOutcome::NotFound;
        };
        if row.epoch != 0 || self.is_locked(row, now) {
            return CancelOutcome::AlreadyClaimed;
        }
        let (key, topic) = (row.key, row.envelope.topic.clone());
        self.remove(key);
        CancelOutcome::Cancelled { topic }
    }

    pub(in crate::store::memory) fn cancel_waiting(&mut self, message: MessageId, lease: Duration) -> CancelOutcome {
        let now = self.clock.now();
        let row = self.ids.get(&message).and_then(|id| self.rows.get(id)).filter(|row| row.lane.is_none());
        let Some(row) = row else { return CancelOutcome::NotFound };
        let is_nobodys = row.due_at <= now || if row.epoch == 0 { row.delayed } else { row.due_at > now.plus(lease) };
        if !is_nobodys || self.is_locked(row, now) {
            return CancelOutcome::AlreadyClaimed;
        }
        let (key, topic) = (row.key, row.envelope.topic.clone());
        self.remove(key);
        CancelOutcome::Cancelled { topic }
    }

    pub(in crate::store::memory) fn send_now(&mut self, message: MessageId, lease: Duration) -> Option<SendNowOutcome> {
        let now = self.clock.now();
        let row = self.ids.get(&message).and_then(|id| self.rows.get(id)).filter(|row| row.lane.is_none())?;
        let is_nobodys = if row.epoch == 0 { row.delayed } else { row.due_at > now.plus(lease) };
        let key = row.key;
        if row.due_at <= now || !is_nobodys || self.is_locked(row, now) {
            return Some(SendNowOutcome::Soon);
        }
        if let Some(row) = self.row_mut(key) {
            row.due_at = now;
            row.epoch += 1;
            row.envelope.deliver_at = row.envelope.deliver_at.map(|at| at.min(now.as_system_time()));
        }
        Some(SendNowOutcome::Due)
    }

    pub(in crate::store::memory) fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterCursor>,
        until: Option<&DeadLetterCursor>,
        rows_max: usize,
    ) -> Vec<DeadLetter> {
        let mut found: Vec<DeadLetter> =
            self.dead.iter().map(MemoryDeadLetter::to_dead_letter).filter(|letter| matches(filter, letter)).collect();
        let place = |topic: &Arc<str>, dead_at, id| (Arc::clone(topic), dead_at, id);
        found.sort_by_key(|letter| place(&letter.topic, letter.dead_at, letter.message_id));
        if let Some(after) = after {
            let after = place(&after.topic, after.dead_at, after.message_id);
            found.retain(|letter| place(&letter.topic, letter.dead_at, letter.message_id) > after);
        }
        if let Some(until) = until {
            let until = place(&until.topic, until.dead_at, until.message_id);
            found.retain(|letter| place(&letter.topic, letter.dead_at, letter.message_id) <= until);
        }
        found.truncate(rows_max);
        found
    }

    pub(in crate::store::memory) fn find_dead_letter(&self, message: MessageId) -> Option<DeadLetter> {
        self.dead.iter().find(|dead| dead.row.key.message_id == message).map(MemoryDeadLetter::to_dead_letter)
    }

    pub(in crate::store::memory) fn count_dead_letters(&self) -> Vec<DeadLetterCount> {
        let mut counts: BTreeMap<(Arc<str>, String), usize> = BTreeMap::new();
        for dead in &self.dead {
            let word = DeadLetterReason::of(&dead.row.reason).to_string();
            *counts.entry((Arc::clone(&dead.row.topic), word)).or_default() += 1;
        }
        let counts = counts.into_iter();
        counts
            .map(|((topic, word), count)| DeadLetterCount { topic, reason: word.as_str().into(), class: None, count })
            .collect()
    }

    pub(in crate::store::memory) fn group_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        rows_max: usize,
    ) -> Vec<DeadLetterGroup> {
        let mut groups: BTreeMap<(Arc<str>, String, Option<String>), DeadLetterGroup> = BTreeMap::new();
        for letter in self.dead_letters(&filter.indexed(), None, None, rows_max) {
            let (topic, reason) = (Arc::clone(&letter.topic), letter.typed_reason());
            let class = last_class(&letter).map(str::to_owned);
            let group = groups.entry((Arc::clone(&topic), reason.to_string(), class.clone()));
            let group = group.or_insert_with(|| DeadLetterGroup {
                matching: DeadLetterCount { topic, reason, class, count: 0 },
                read: 0,
            });
            group.matching.count += usize::from(matches(filter, &letter));
            group.read += 1;
        }
        groups.into_values().collect()
    }

    pub(in crate::store::memory) fn dead_letter_keys(&self, messages: &[MessageId]) -> Vec<MessageKey> {
        let of = self.dead.iter().filter(|dead| messages.contains(&dead.row.key.message_id));
        of.map(|dead| message_key(dead.row.key, &dead.envelope, dead.lane)).collect()
    }

    pub(in crate::store::memory) fn purge(&mut self, messages: &[MessageId]) -> usize {
        let before = self.dead.len();
        self.dead.retain(|dead| !messages.contains(&dead.row.key.message_id));
        before - self.dead.len()
    }

    pub(in crate::store::memory) fn redrive(&mut self, requeues: &[Requeue]) -> Vec<RowRef> {
        let lanes: HashMap<MessageId, Option<u16>> =
            requeues.iter().map(|requeue| (requeue.message_id, requeue.lane)).collect();
        let (mut requeued, remaining): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.dead).into_iter().partition(|dead| lanes.contains_key(&dead.row.key.message_id));
        self.dead = remaining;
        requeued.sort_by_key(|dead| dead.row.key.id);
        let now = self.clock.now();
        let requeue_dead_letter = |dead: MemoryDeadLetter| {
            let lane = lanes.get(&dead.row.key.message_id).copied().flatten();
            let row = MemoryRow { lane, due_at: now, attempts: 0, failures: 0, ..dead.into_row() };
            let id = if lane.is_some() { self.next_id() } else { row.key.id };
            self.requeue(row, id)
        };
        requeued.into_iter().map(requeue_dead_letter).collect()
    }

    pub(in crate::store::memory) fn replace(&mut self, letter: MessageId, by: &Envelope, lane: Option<u16>) -> bool {
        let Some(place) = self.dead.iter().position(|dead| dead.row.key.message_id == letter) else { return false };
        self.dead.remove(place);
        let row = self.prepare(by.clone(), InsertOptions { lane, ..InsertOptions::default() });
        self.commit(row);
        true
    }

    /// Returns whether the pause begins with this.
    pub(in crate::store::memory) fn pause(&mut self, topic: &Arc<str>) -> bool {
        let now = self.clock.now();
        let is_new = !self.paused.contains_key(topic);
        self.paused.entry(Arc::clone(topic)).or_insert(now);
        is_new
    }

    pub(in crate::store::memory) fn resume(&mut self, topic: &Arc<str>) -> bool {
        self.paused.remove(topic).is_some()
    }

    pub(in crate::store::memory) fn paused(&self) -> Vec<PausedTopic> {
        let paused = self.paused.iter();
        paused.map(|(topic, at)| PausedTopic { topic: Arc::clone(topic), since: at.as_system_time() }).collect()
    }

    /// Turns a former row into a live one, with this id and the next epoch.
    pub(super) fn requeue(&mut self, row: MemoryRow, id: i64) -> RowRef {
        let key = RowKey { id, message_id: row.key.message_id };
        let due_at = if row.lane.is_some() { Micros(0) } else { row.due_at };
        self.commit(MemoryRow { key, due_at, epoch: row.epoch + 1, ..row }).into()
    }
}

/// The failures of a row. The store in memory does not keep their times.
pub(super) fn failed_attempts(errors: &[StoredError]) -> Vec<FailedAttempt> {
    let note = |error: &StoredError| FailedAttempt { at: None, class: error.class.clone(), error: error.error.clone() };
    errors.iter().map(note).collect()
}

/// What determines a message's lane.
pub(super) fn message_key(key: RowKey, envelope: &Envelope, lane: Option<u16>) -> MessageKey {
    MessageKey { message_id: key.message_id, topic: Arc::clone(&envelope.topic), key: envelope.key.clone(), lane }
}

fn last_class(letter: &DeadLetter) -> Option<&str> {
    letter.errors.last().map(|note| &*note.class)
}

fn matches(filter: &DeadLetterFilter, letter: &DeadLetter) -> bool {
    let DeadLetterFilter { topic, kind, key, reason, class, dead_from, dead_before, is_everything: _ } = filter;
    topic.as_ref().is_none_or(|topic| *topic == letter.topic)
        && kind.as_ref().is_none_or(|kind| **kind == *letter.kind)
        && key.as_ref().is_none_or(|key| letter.key.as_deref() == Some(&**key))
        && reason.as_ref().is_none_or(|reason| *reason == letter.typed_reason())
        && class.as_ref().is_none_or(|class| last_class(letter) == Some(&**class))
        && dead_from.is_none_or(|from| letter.dead_at >= from)
        && dead_before.is_none_or(|before| letter.dead_at < before)
}
