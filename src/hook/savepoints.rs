//! The rows of a connection's open transaction by savepoint: a savepoint that is rolled back takes its rows with it.

use super::pending::{Pending, deliver};
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{HOOK_REFS_MAX, INLINE_ROWS_MAX};
use crate::receipts::Ticket;
use crate::relay::direct::queue::count_left_to_sweeper;

/// The rows that a connection enqueued in its open transaction, and the savepoint depth of each.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    pub(super) pending: Vec<Pending>,
    /// For each open savepoint, from depth 2 on: the number of rows when it began.
    savepoints: Vec<usize>,
    /// The announced COMMIT or RELEASE that has not ended yet.
    committing: Option<AnnouncedCommit>,
    /// How many statements began, without announced COMMITs.
    statements: u64,
    /// The number of statements begun when the last rows were written.
    written_at: u64,
    /// Statements that are sent with the announced COMMIT and before it: their ends come first.
    statements_before_commit: usize,
    /// Whether the outermost transaction is one of `begin_test_transaction`, which never commits.
    in_test_transaction: bool,
    /// Whether the open transaction had a deadlock.
    deadlocked: bool,
    begun: TransactionState,
}

/// Whether the transaction manager has begun a transaction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    #[default]
    None,
    /// BEGIN was announced and has not ended yet.
    Announced,
    Open,
}

#[derive(Debug, Clone, Copy)]
struct AnnouncedCommit {
    depth: u32,
    /// Whether a pure COMMIT statement began after the announcement.
    has_begun: bool,
}

/// The result of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementResult {
    /// No error, which alone proves nothing.
    Success,
    /// Unknown, for instance because the connection broke.
    Unknown,
    /// It was not executed.
    Failed,
}

impl Buffer {
    /// Keeps rows that were written at `depth`, and the statement count from before. Rows beyond the limit are left to
    /// the sweeper, and counted.
    pub(super) fn push(&mut self, mut rows: Vec<Pending>, depth: u32, in_test_transaction: bool, before: u64) {
        self.in_test_transaction = in_test_transaction;
        let alone = self.statements == before + 1;
        if !alone || before != self.written_at {
            self.discard_inline();
        }
        self.written_at = self.statements;
        let room = if alone { INLINE_ROWS_MAX.saturating_sub(self.pending.len()) } else { 0 };
        clear_inline(rows.iter_mut().skip(room));
        // A hook that was installed inside a transaction missed its savepoints; no rows existed then.
        let savepoints = depth.saturating_sub(1) as usize;
        if self.savepoints.len() < savepoints {
            self.savepoints.resize(savepoints, self.pending.len());
        }
        let room = HOOK_REFS_MAX.saturating_sub(self.pending.len());
        count_left_to_sweeper(rows.len().saturating_sub(room), "too_many");
        let mut rows = rows.into_iter();
        self.pending.extend(rows.by_ref().take(room));
        rows.filter_map(|row| row.ticket).for_each(Ticket::leave);
    }

    pub(super) fn begin(&mut self, depth: u32) {
        self.resolve_unknown_commit();
        if depth <= 1 {
            self.reset();
            self.begun = TransactionState::Announced;
        } else {
            self.savepoints.resize(depth as usize - 2, self.pending.len());
            self.savepoints.push(self.pending.len());
        }
    }

    pub(super) fn commit(&mut self, depth: u32) {
        self.resolve_unknown_commit();
        if depth <= 1 {
            self.begun = TransactionState::None;
        }
        self.committing = Some(AnnouncedCommit { depth, has_begun: false });
    }

    /// A statement begins; `is_commit` tells whether it is a pure COMMIT.
    pub(super) fn start(&mut self, is_commit: impl FnOnce() -> bool) {
        match &mut self.committing {
            Some(announced) if self.statements_before_commit == 0 && !announced.has_begun && is_commit() => {
                announced.has_begun = true;
                if announced.depth <= 1 && self.statements == self.written_at {
                    self.announce();
                }
            }
            _ => self.statements += 1,
        }
    }

    /// The COMMIT is being sent: the relay can already read the rows before these.
    fn announce(&mut self) {
        for Pending { row, link, .. } in self.pending.iter_mut().take(INLINE_ROWS_MAX) {
            if let Some(link) = link.as_ref().filter(|_| row.lane.is_some()) {
                link.announce(row);
            }
        }
    }

    /// How many statements have begun.
    pub(super) fn statements(&self) -> u64 {
        self.statements
    }

    /// The COMMIT announced next is sent together with `statements` before it.
    pub(super) fn expect_statements_before_commit(&mut self, statements: usize) {
        self.statements_before_commit = statements;
    }

    pub(super) fn roll_back(&mut self, depth: u32) {
        self.resolve_unknown_commit();
        if depth <= 1 {
            self.reset();
        } else if let Some(savepoint) = self.savepoints.get(depth as usize - 2) {
            self.pending.truncate(*savepoint);
            self.savepoints.truncate(depth as usize - 2);
        }
    }

    /// A statement ended. What matters is the one after an announced COMMIT or RELEASE.
    pub(super) fn finish(&mut self, ending: StatementResult) {
        if self.begun == TransactionState::Announced {
            self.begun =
                if ending == StatementResult::Success { TransactionState::Open } else { TransactionState::None };
        }
        let Some(AnnouncedCommit { depth, has_begun }) = self.committing else { return };
        if self.statements_before_commit > 0 {
            self.statements_before_commit -= 1;
            return;
        }
        self.committing = None;
        let may_be_done = ending != StatementResult::Failed;
        if depth <= 1 {
            // The INSERT succeeded, so the transaction was not aborted; nothing came between, so the COMMIT did commit.
            if !(has_begun && ending == StatementResult::Success && self.statements == self.written_at) {
                self.discard_inline();
            }
            if may_be_done {
                deliver(std::mem::take(&mut self.pending));
            }
            self.reset();
        } else if may_be_done {
            self.savepoints.truncate(depth as usize - 2);
            if self.in_test_transaction && depth == 2 {
                deliver(std::mem::take(&mut self.pending));
            }
        }
    }

    /// The commit of these rows will not be verified: the relay must read them.
    fn discard_inline(&mut self) {
        clear_inline(self.pending.iter_mut().take(INLINE_ROWS_MAX));
    }

    pub(super) fn deadlock(&mut self) {
        self.deadlocked = true;
    }

    pub(super) fn is_deadlocked(&self) -> bool {
        self.deadlocked
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun == TransactionState::Open
    }

    /// An announced outermost COMMIT whose end was never seen (its future was dropped) may have happened.
    fn resolve_unknown_commit(&mut self) {
        let Some(AnnouncedCommit { depth, .. }) = self.committing.take() else { return };
        self.statements_before_commit = 0;
        self.discard_inline();
        if depth <= 1 {
            deliver(std::mem::take(&mut self.pending));
        }
    }

    fn reset(&mut self) {
        self.pending.clear();
        self.savepoints.clear();
        self.in_test_transaction = false;
        self.deadlocked = false;
        self.begun = TransactionState::None;
    }
}

/// Hands over references to the rows instead of the rows.
fn clear_inline<'p>(rows: impl Iterator<Item = &'p mut Pending>) {
    if !is_injected(InjectedBug::CommitBelieved) {
        rows.for_each(|pending| pending.row.inline = None);
    }
}

/// A connection that was discarded during COMMIT: the COMMIT may have happened.
impl Drop for Buffer {
    fn drop(&mut self) {
        self.resolve_unknown_commit();
    }
}
