//! Checks with some enqueues whether any relay sends the messages of this process.

use diesel::result::QueryResult;

use super::Outbox;
use super::write::WriteContext;
use crate::enqueue::encode::Encoded;
use crate::enqueue::{Dialect, Inserted};
use crate::store::RowRef;

impl Outbox {
    /// The sample that this enqueue is to check, if there is one.
    pub(super) fn unsent_sample<B: Dialect>(&self, context: WriteContext, connection: usize) -> Option<RowRef> {
        if !self.watches_unsent(context) {
            return None;
        }
        self.inner.unsent.due(connection, B::CAN_CHECK_OWN_ROWS)
    }

    /// Notes whether the sample is still there. If the database refuses the check, for example because a right is missing, no
    /// further check is made.
    ///
    /// # Errors
    /// The database's error, if it ended the application's transaction.
    pub(super) fn note_unsent<B: Dialect>(&self, is_still_there: QueryResult<bool>) -> QueryResult<()> {
        let error = match is_still_there {
            Ok(is_still_there) => {
                self.inner.unsent.found(is_still_there);
                return Ok(());
            }
            Err(error) => error,
        };
        self.inner.unsent.end();
        if B::ERRORS_END_TRANSACTION { Err(error) } else { Ok(()) }
    }

    /// Keeps one of these rows as the sample, unless there is one.
    pub(super) fn remember_unsent(
        &self,
        context: WriteContext,
        rows: &[Encoded],
        inserted: &[Inserted],
        connection: usize,
    ) {
        if self.watches_unsent(context) {
            self.inner.unsent.note(rows, inserted, connection);
        }
    }

    fn watches_unsent(&self, context: WriteContext) -> bool {
        let is_watched = context.leased_at.is_none() && !context.at.in_test_transaction;
        is_watched && !self.inner.unsent.is_over() && !self.link().has_relayed() && self.inner.recorder.get().is_none()
    }
}
