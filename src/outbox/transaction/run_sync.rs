use diesel::connection::{Connection, TransactionManager};
use diesel::result::{Error, QueryResult};

use super::begin::{after_rollback, begin};
use super::buffered::BufferedMessages;
use super::connection_sync::Transaction;
use crate::enqueue::encode::Encoded;
use crate::enqueue::{Dialect, OutboxBackend};
use crate::hook::{Depth, SyncConn};
use crate::outbox::Outbox;
use crate::outbox::pending_commit::PendingCommit;
use crate::outbox::write::{error_after_rollback, map_refusal};

impl Outbox {
    /// Runs `f` in a transaction whose last statement writes the messages that `f` enqueued.
    ///
    /// Commits if `f` returns `Ok` and rolls back if it returns `Err`, as Diesel's own `transaction` does. Inside an
    /// open transaction it is a savepoint. It is faster than separate enqueues and needs no instrumentation. On
    /// PostgreSQL it verifies its own commit, so the relay need not read small messages. There it also reports an error
    /// that `f` swallowed, where Diesel's own would return `Ok` for a rollback.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::connection::SimpleConnection;
    /// # use diesel::prelude::*;
    /// # use diesel_outbox::{Message, Outbox, Topic};
    /// # use diesel_migrations::MigrationHarness;
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// # conn.batch_execute("CREATE TABLE orders (id integer PRIMARY KEY)")?;
    /// outbox.transaction(&mut conn, |tx| {
    ///     diesel::sql_query("INSERT INTO orders VALUES (42)").execute(tx)?;
    ///     tx.enqueue(&Message::to("orders").key("42").payload_bytes("placed"))?;
    ///     Ok::<_, diesel::result::Error>(())
    /// })?;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns what `f` returns, or the database's error for BEGIN, for the messages or for COMMIT. Returns
    /// [`EnqueueError::TransactionLost`](crate::EnqueueError::TransactionLost) if the transaction ended inside `f`, by
    /// a failed statement or by raw SQL: the messages would be sent without its data.
    pub fn transaction<C, T, E, F>(&self, conn: &mut C, f: F) -> Result<T, E>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
        F: FnOnce(&mut Transaction<'_, C>) -> Result<T, E>,
        E: From<Error>,
    {
        let begun = begin(conn)?;
        let mut tx = Transaction::new(conn, BufferedMessages::new(self.clone()));
        let ended = f(&mut tx);
        let (conn, buffered) = tx.into_parts();
        match ended {
            Ok(value) => {
                self.write_and_commit(conn, buffered.into_rows(), begun)?;
                Ok(value)
            }
            Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn))),
        }
    }

    fn write_and_commit<C>(&self, conn: &mut C, rows: Vec<Encoded>, begun: Depth) -> QueryResult<()>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        if rows.is_empty() {
            return C::TransactionManager::commit_transaction(conn);
        }
        match self.write_last(conn, rows, begun) {
            Ok(committing) => {
                let committed = C::TransactionManager::commit_transaction(conn);
                committing.end(&committed);
                committed
            }
            Err(error) => Err(after_rollback(error, C::TransactionManager::rollback_transaction(conn))),
        }
    }

    fn write_last<C>(&self, conn: &mut C, rows: Vec<Encoded>, begun: Depth) -> QueryResult<PendingCommit>
    where
        C: Connection,
        C::Backend: OutboxBackend<C>,
    {
        let context = self.check_final_write::<C::Backend>(&mut SyncConn(conn), &rows, begun)?;
        if let Some(clear_flag) = C::Backend::CLEAR_FLAG {
            conn.batch_execute(clear_flag).map_err(|error| map_refusal::<C::Backend>(error, &rows))?;
        }
        let inserted = self.insert_all(conn, &rows, context)?;
        self.check_unsent(conn, context)?;
        let committing = self.pending_commit::<C::Backend>(rows, &inserted, context);
        Ok(committing.or_defer_to_hook(&mut SyncConn(conn)))
    }
}
