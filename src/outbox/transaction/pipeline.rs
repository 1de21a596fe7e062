//! INSERT and COMMIT in one flight.

use diesel::connection::TransactionManagerStatus;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error, QueryResult};
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager};
use futures_util::future::join;

use crate::enqueue::encode::Encoded;
use crate::enqueue::{AsyncOutboxBackend, next_statement_rows};
use crate::hook::{AsyncConn, announce_commit};
use crate::limits::ENQUEUE_BYTES_MAX;
use crate::outbox::Outbox;
use crate::outbox::write::Admitted;

/// COMMIT as a prepared statement.
///
/// diesel-async sends a statement as soon as it is prepared, and prepares one after the other, so of two prepared
/// statements the first that is polled is the first that is sent, cached or not. A COMMIT by `batch_execute` would overtake
/// an INSERT that is not cached yet; a test holds each new version to that.
struct Commit;

impl QueryFragment<Pg> for Commit {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("COMMIT");
        Ok(())
    }
}

impl QueryId for Commit {
    type QueryId = Self;
    const HAS_STATIC_QUERY_ID: bool = true;
}

impl Outbox {
    /// Whether the rows may travel with their COMMIT: of the outermost transaction, in one statement, and small enough that
    /// no client refuses to send it, which would leave the COMMIT alone on its way.
    pub(super) fn fits_pipeline(rows: &[Encoded], admitted: Admitted) -> bool {
        let bytes: usize = rows.iter().map(|row| row.bytes).sum();
        admitted.at.depth == 1
            && !admitted.at.in_test_transaction
            && bytes <= ENQUEUE_BYTES_MAX
            && next_statement_rows::<Pg>(rows) == rows.len()
    }

    /// Writes the rows and commits. The transaction is over in any case, unless the connection is.
    pub(super) async fn write_with_commit(
        &self,
        conn: &mut AsyncPgConnection,
        rows: Vec<Encoded>,
        admitted: Admitted,
    ) -> QueryResult<()> {
        announce_commit(&mut AsyncConn(conn), 1);
        // Until both have answered nobody knows where the connection stands: a dropped future leaves it broken.
        AnsiTransactionManager::transaction_manager_status_mut(conn).set_in_error();
        let (inserted, committed) = {
            let shared = &*conn;
            let (mut first, mut second) = (shared, shared);
            join(Pg::insert_async(&mut first, self.insertion(&rows, admitted)), Commit.execute(&mut second)).await
        };
        let committed = committed.map(|_| ());
        if !committed.as_ref().is_err_and(is_disconnected) {
            *AnsiTransactionManager::transaction_manager_status_mut(conn) = TransactionManagerStatus::default();
        }
        // After a failed INSERT the server answers "ok" to COMMIT and rolls back.
        let inserted = inserted?;
        self.committing::<Pg>(rows, &inserted, admitted).end(&committed);
        committed
    }
}

fn is_disconnected(error: &Error) -> bool {
    matches!(
        error,
        Error::DatabaseError(DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand, _)
    )
}
