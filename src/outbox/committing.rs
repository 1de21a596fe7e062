use diesel::result::QueryResult;

use super::Outbox;
use super::write::Admitted;
use crate::enqueue::encode::Encoded;
use crate::enqueue::{Dialect, Inserted};
use crate::hook::{Conn, Depth, Pending, deliver, perhaps_committed, remember, statements};

/// Rows that the last statement of a transaction wrote; its COMMIT comes next.
#[must_use]
pub(super) struct Committing {
    pending: Vec<Pending>,
    at: Depth,
}

impl Outbox {
    pub(super) fn committing<B: Dialect>(
        &self,
        rows: Vec<Encoded>,
        inserted: &[Inserted],
        admitted: Admitted,
    ) -> Committing {
        let at = admitted.at;
        let pending = self.pending(rows, inserted, admitted, B::COMMIT_PROVES && at.is_outermost());
        Committing { pending, at }
    }
}

impl Committing {
    /// Inside another transaction the rows wait for that one's COMMIT, in the hook.
    pub(super) fn or_remember(mut self, conn: &mut impl Conn) -> Self {
        if !self.at.is_outermost() {
            let seen = statements(conn);
            remember(conn, std::mem::take(&mut self.pending), self.at, seen);
        }
        self
    }

    /// The COMMIT, or the RELEASE of an application's test, has ended.
    pub(super) fn end(mut self, committed: &QueryResult<()>) {
        match committed {
            Ok(()) => deliver(self.pending),
            Err(error) if perhaps_committed(error) => {
                for pending in &mut self.pending {
                    pending.row.carried = None;
                }
                deliver(self.pending);
            }
            Err(_) => {}
        }
    }
}
