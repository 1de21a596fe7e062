use super::pending::{Pending, deliver};
use crate::limits::HOOK_REFS_MAX;
use crate::relay::queue::lost;

/// What one connection enqueued in its open transaction, and how deep each row stands in it.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    pending: Vec<Pending>,
    /// For each open savepoint, from depth 2 on: how many rows there were when it began.
    marks: Vec<usize>,
    /// The depth whose COMMIT or RELEASE was announced and has not ended yet.
    committing: Option<u32>,
    /// Statements sent together with the announced COMMIT and before it: their ends come first.
    ends_before_commit: usize,
    /// Whether the outermost transaction is one of `begin_test_transaction`, which never commits.
    in_test_transaction: bool,
    /// Whether the open transaction met a deadlock.
    deadlocked: bool,
}

impl Buffer {
    /// Keeps rows that were written at `depth`. What is too much is left to the sweeper, and counted.
    pub(super) fn push(&mut self, rows: Vec<Pending>, depth: u32, in_test_transaction: bool) {
        self.in_test_transaction = in_test_transaction;
        // Installed inside a transaction, the hook has not seen its savepoints begin; there was nothing then.
        let savepoints = depth.saturating_sub(1) as usize;
        if self.marks.len() < savepoints {
            self.marks.resize(savepoints, self.pending.len());
        }
        let room = HOOK_REFS_MAX.saturating_sub(self.pending.len());
        lost(rows.len().saturating_sub(room), "too_many");
        self.pending.extend(rows.into_iter().take(room));
    }

    pub(super) fn begin(&mut self, depth: u32) {
        self.resolve_doubt();
        if depth <= 1 {
            self.forget();
        } else {
            self.marks.resize(depth as usize - 2, self.pending.len());
            self.marks.push(self.pending.len());
        }
    }

    pub(super) fn commit(&mut self, depth: u32) {
        self.resolve_doubt();
        self.committing = Some(depth);
    }

    /// Says that the COMMIT announced next is sent together with `statements` before it.
    #[cfg(any(test, all(feature = "async", feature = "postgres")))]
    pub(super) fn expect_before_commit(&mut self, statements: usize) {
        self.ends_before_commit = statements;
    }

    pub(super) fn roll_back(&mut self, depth: u32) {
        self.resolve_doubt();
        if depth <= 1 {
            self.forget();
        } else if let Some(mark) = self.marks.get(depth as usize - 2) {
            self.pending.truncate(*mark);
            self.marks.truncate(depth as usize - 2);
        }
    }

    /// The end of any statement; of interest is the one behind an announced COMMIT or RELEASE, and whether that may have
    /// been done.
    pub(super) fn finish(&mut self, perhaps_done: bool) {
        let Some(depth) = self.committing else { return };
        if self.ends_before_commit > 0 {
            self.ends_before_commit -= 1;
            return;
        }
        self.committing = None;
        if depth <= 1 {
            if perhaps_done {
                deliver(std::mem::take(&mut self.pending));
            }
            self.forget();
        } else if perhaps_done {
            self.marks.truncate(depth as usize - 2);
            if self.in_test_transaction && depth == 2 {
                deliver(std::mem::take(&mut self.pending));
            }
        }
    }

    pub(super) fn deadlock(&mut self) {
        self.deadlocked = true;
    }

    pub(super) fn is_deadlocked(&self) -> bool {
        self.deadlocked
    }

    /// An announced outermost COMMIT whose end was never seen (its future was dropped) may have happened.
    fn resolve_doubt(&mut self) {
        let Some(depth) = self.committing.take() else { return };
        self.ends_before_commit = 0;
        if depth <= 1 {
            deliver(std::mem::take(&mut self.pending));
        }
    }

    fn forget(&mut self) {
        self.pending.clear();
        self.marks.clear();
        self.in_test_transaction = false;
        self.deadlocked = false;
    }
}

/// A connection discarded in mid-COMMIT: the COMMIT may have happened.
impl Drop for Buffer {
    fn drop(&mut self) {
        self.resolve_doubt();
    }
}
