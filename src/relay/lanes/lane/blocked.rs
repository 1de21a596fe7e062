//! Keys that wait behind a failed row, and when they try again.

use super::{Key, KeyHash, Lane};
use crate::clock::BootInstant;
use crate::store::RowKey;

impl Lane {
    /// The row failed, and its key waits behind it. Other rows of the key are dropped and read again later.
    pub(crate) fn block(&mut self, key: KeyHash, row: RowKey, until: BootInstant) {
        let mut before = None;
        self.take_back(key, row, |state, back| before = state.block(back, until));
        if let Some(before) = before {
            self.blocked.remove(&(before, key));
        }
        if self.keys.get(&key).is_some_and(|state| state.blocked_until() == Some(until)) {
            self.blocked.insert((until, key));
        }
    }

    /// Lets keys try again whose wait is over.
    pub(crate) fn unblock(&mut self, now: BootInstant) {
        while let Some(&(until, key)) = self.blocked.first() {
            if until > now {
                return;
            }
            self.blocked.pop_first();
            if self.keys.get(&key).is_some_and(|state| state.blocked_until() == Some(until)) {
                self.change(key, Key::unblock);
            }
        }
    }

    /// Lets every key try now, however long its wait.
    pub(crate) fn unblock_all(&mut self) {
        if let Some(&(last, _)) = self.blocked.last() {
            self.unblock(last);
        }
    }

    pub(crate) fn blocked_keys(&self) -> usize {
        self.blocked.len()
    }
}
