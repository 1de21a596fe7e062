//! Checks, at some of the enqueues, whether anybody sends what this process enqueues.

use diesel::result::QueryResult;

use super::Outbox;
use super::write::WriteContext;
use crate::enqueue::encode::Encoded;
use crate::enqueue::{Dialect, Inserted};
use crate::store::RowRef;

impl Outbox {
    /// A message that perhaps nobody sends, to be checked.
    pub(super) fn perhaps_unsent<B: Dialect>(&self, context: WriteContext, connection: usize) -> Option<RowRef> {
        if !self.watches_unsent(context) {
            return None;
        }
        self.inner.unsent.due(connection, B::OWN_ROWS_TELL)
    }

    /// Notes whether it is still there. If the database refuses the check, for example for a missing right, it is not repeated.
    ///
    /// # Errors
    /// The refusal, if it ended the application's transaction.
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

    /// Takes one of these rows as the sample.
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
