//! Sends INSERT and COMMIT together.

use diesel::connection::TransactionManagerStatus;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};
use futures_util::future::join;

use crate::enqueue::encode::Encoded;
use crate::enqueue::{AsyncOutboxBackend, next_statement_rows};
use crate::hook::{AsyncConn, announce_commit, announce_rollback, may_have_committed};
use crate::limits::ENQUEUE_BYTES_MAX;
use crate::outbox::Outbox;
use crate::outbox::write::{WriteContext, map_refusal};

/// COMMIT as a prepared statement.
///
/// diesel-async sends a statement as soon as it is prepared, and prepares one after the other. So of two prepared
/// statements, the one that is polled first is sent first, cached or not. A COMMIT by `batch_execute` would overtake an
/// INSERT that is not cached yet. A test checks this for each new version.
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
    /// Whether the rows may be sent together with their COMMIT: the transaction is the outermost one, and they fit one
    /// statement. They must be small enough that the client cannot refuse them, which would send the COMMIT alone.
    pub(super) fn fits_pipeline(rows: &[Encoded], context: WriteContext) -> bool {
        let bytes: usize = rows.iter().map(|row| row.bytes).sum();
        context.at.depth == 1
            && !context.at.in_test_transaction
            && bytes <= ENQUEUE_BYTES_MAX
            && next_statement_rows::<Pg>(rows) == rows.len()
    }

    /// Writes the rows and commits. Afterwards the transaction is over, unless the connection is broken.
    pub(super) async fn write_with_commit(
        &self,
        conn: &mut AsyncPgConnection,
        mut rows: Vec<Encoded>,
        context: WriteContext,
    ) -> QueryResult<()> {
        announce_commit(&mut AsyncConn(conn), 1);
        let set_in_doubt = |rows: &mut [Encoded], is_in_doubt| {
            rows.iter_mut().filter_map(|row| row.ticket.as_mut()).for_each(|ticket| ticket.set_in_doubt(is_in_doubt));
        };
        set_in_doubt(&mut rows, true);
        // Until both have answered, the connection's state is unknown: a dropped future leaves it broken.
        AnsiTransactionManager::transaction_manager_status_mut(conn).set_in_error();
        let (inserted, committed) = {
            let shared = &*conn;
            let (mut first, mut second) = (shared, shared);
            join(Pg::insert_async(&mut first, self.insertion(&rows, &rows, context)), Commit.execute(&mut second)).await
        };
        let committed = committed.map(|_| ());
        if committed.is_ok() || is_reusable(conn).await {
            *AnsiTransactionManager::transaction_manager_status_mut(conn) = TransactionManagerStatus::default();
        }
        // After a failed INSERT the server answers "ok" to COMMIT, but rolls back.
        let inserted = inserted.map_err(|error| {
            if !may_have_committed(&error) {
                set_in_doubt(&mut rows, false);
            }
            map_refusal::<Pg>(error, &rows)
        })?;
        self.pending_commit::<Pg>(rows, &inserted, context).end(&committed);
        committed
    }
}

/// Cleans up after a failed COMMIT. Returns whether the session can be used again.
///
/// The COMMIT may not have run at all: it was cancelled first, or its prepared statement is gone (`DEALLOCATE ALL`, or
/// pgbouncer switched servers). The error does not show which, so ROLLBACK is always sent; without a transaction it only
/// warns. So does another COMMIT, which shows whether the server still knows the prepared statement. If it does not,
/// every later transaction would fail as well.
async fn is_reusable(conn: &mut AsyncPgConnection) -> bool {
    announce_rollback(&mut AsyncConn(conn));
    conn.batch_execute("ROLLBACK").await.is_ok() && Commit.execute(conn).await.is_ok()
}
