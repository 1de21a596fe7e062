use diesel::result::QueryResult;

use super::Outbox;
use super::write::WriteContext;
use crate::enqueue::encode::Encoded;
use crate::enqueue::{Dialect, Inserted};
use crate::hook::{Conn, Depth, Pending, deliver, hold_until_commit, may_have_committed, statements};

/// Rows that the last statement of a transaction wrote; its COMMIT comes next.
#[must_use]
pub(super) struct PendingCommit {
    pending: Vec<Pending>,
    at: Depth,
}

impl Outbox {
    pub(super) fn pending_commit<B: Dialect>(
        &self,
        rows: Vec<Encoded>,
        inserted: &[Inserted],
        context: WriteContext,
    ) -> PendingCommit {
        let at = context.at;
        if at.is_outermost() {
            // 0 stands for no connection: this transaction has ended when the row is checked.
            self.remember_unsent(context, &rows, inserted, 0);
        }
        let mut pending = self.pending(rows, inserted, context, B::COMMIT_VERIFIES_INSERT && at.is_outermost());
        // A future that is dropped during COMMIT drops them, and nobody knows.
        set_in_doubt(&mut pending, true);
        PendingCommit { pending, at }
    }
}

impl PendingCommit {
    /// Inside another transaction the rows wait for that one's COMMIT, in the hook.
    pub(super) fn or_defer_to_hook(mut self, conn: &mut impl Conn) -> Self {
        if !self.at.is_outermost() {
            let seen = statements(conn);
            set_in_doubt(&mut self.pending, false);
            hold_until_commit(conn, std::mem::take(&mut self.pending), self.at, seen);
        }
        self
    }

    /// The COMMIT, or the RELEASE of an application's test, has ended.
    pub(super) fn end(mut self, committed: &QueryResult<()>) {
        match committed {
            Ok(()) => deliver(self.pending),
            Err(error) if may_have_committed(error) => {
                for pending in &mut self.pending {
                    pending.row.inline = None;
                }
                deliver(self.pending);
            }
            Err(_) => set_in_doubt(&mut self.pending, false),
        }
    }
}

fn set_in_doubt(pending: &mut [Pending], is_in_doubt: bool) {
    pending
        .iter_mut()
        .filter_map(|pending| pending.ticket.as_mut())
        .for_each(|ticket| ticket.set_in_doubt(is_in_doubt));
}
