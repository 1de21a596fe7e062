use std::time::Duration;

use super::{MemoryDeadLetter, MemoryRow, Micros, State};
use crate::limits::ERRORS_KEPT_MAX;
use crate::retry::bounded;
use crate::store::stored::truncated_text;
use crate::store::{DeadLetterRow, Failed, Held, NewDeadLetter, RowKey, StoredError};

/// What a settle did.
#[derive(Debug)]
pub(in crate::store::memory) struct Settled {
    pub(in crate::store::memory) removed: Vec<RowKey>,
    /// Rows that exist, but are locked.
    pub(in crate::store::memory) skipped: Vec<RowKey>,
}

impl State {
    pub(in crate::store::memory) fn settle(&mut self, keys: &[RowKey]) -> Settled {
        let (skipped, free) = self.partition_locked(keys);
        let removed = free.into_iter().filter_map(|key| self.remove(key)).map(|row| row.key).collect();
        Settled { removed, skipped }
    }

    /// Splits the rows that exist into those that somebody has locked and the others.
    pub(super) fn partition_locked(&self, keys: &[RowKey]) -> (Vec<RowKey>, Vec<RowKey>) {
        let now = self.clock.now();
        let there = keys.iter().copied().filter(|&key| self.row(key).is_some());
        there.partition(|key| self.row(*key).is_some_and(|row| self.is_locked(row, now)))
    }

    pub(in crate::store::memory) fn settle_dead_letters(&mut self, rows: &[RowKey]) -> usize {
        let before = self.dead.len();
        self.dead.retain(|dead| !rows.contains(&dead.row.key));
        before - self.dead.len()
    }

    /// Whether the row exists, has this epoch, and is not locked by others.
    pub(super) fn is_held(&self, held: Held) -> bool {
        let now = self.clock.now();
        self.row(held.key).is_some_and(|row| row.epoch == held.epoch && !self.is_locked(row, now))
    }

    pub(in crate::store::memory) fn extend(&mut self, held: &[Held], lease: Duration) -> Vec<RowKey> {
        let due_at = self.clock.now().plus(lease);
        self.write_held(held, |row, _| row.due_at = due_at)
    }

    pub(in crate::store::memory) fn release(&mut self, held: &[Held]) -> Vec<RowKey> {
        self.write_held(held, |row, now| {
            row.due_at = now;
            row.epoch += 1;
        })
    }

    pub(in crate::store::memory) fn fail(&mut self, failed: &[Failed]) -> Vec<RowKey> {
        let mut noted = Vec::new();
        for failure in failed {
            noted.extend(self.write_held(&[failure.held], |row, now| {
                row.due_at = now.plus(bounded(failure.wait));
                row.epoch += 1;
                row.failures += 1;
                row.attempts += u32::from(failure.spends_attempt);
                row.errors.push(StoredError { class: failure.class.to_owned(), error: truncated_text(&failure.error) });
                row.errors.drain(..row.errors.len().saturating_sub(ERRORS_KEPT_MAX));
            }));
        }
        noted
    }

    pub(in crate::store::memory) fn dead_letter(&mut self, dead: &[NewDeadLetter]) -> Vec<RowKey> {
        let mut moved = Vec::new();
        for new_dead_letter in dead {
            if !self.is_held(new_dead_letter.held) {
                continue;
            }
            let Some(row) = self.remove(new_dead_letter.held.key) else { continue };
            moved.push(row.key);
            if self.dead.iter().any(|dead| dead.row.key.message_id == row.key.message_id) {
                continue;
            }
            let dead = DeadLetterRow {
                key: row.key,
                topic: row.envelope.topic.clone(),
                epoch: row.epoch,
                attempts: row.attempts,
                failures: row.failures,
                errors: row.errors,
                reason: truncated_text(&new_dead_letter.reason),
            };
            let MemoryRow { envelope, delayed, lane, poisoned, .. } = row;
            self.dead.push(MemoryDeadLetter {
                row: dead,
                envelope,
                delayed,
                lane,
                poisoned,
                dead_at: self.clock.now(),
            });
        }
        moved
    }

    fn write_held(&mut self, held: &[Held], write: impl Fn(&mut super::MemoryRow, Micros)) -> Vec<RowKey> {
        let now = self.clock.now();
        let mut written = Vec::new();
        for &held in held {
            if self.is_held(held)
                && let Some(row) = self.row_mut(held.key)
            {
                write(row, now);
                written.push(held.key);
            }
        }
        written
    }
}
