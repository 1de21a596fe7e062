//! Poolers that choose a session for each transaction, as pgbouncer does in transaction mode.

use diesel::pg::Pg;
use tokio::time::timeout;

use super::PostgresStore;
use crate::limits::POOLER_CHECK_WAIT;
use crate::store::pool::{ConnectionPool, PoolConnection};
use crate::store::sql::dialect::Statement;
use crate::store::sql::rows::Read;
use crate::store::{SchemaProblem, StoreError};

/// Identifies a session and its server: process ids alone repeat on another server or after a restart.
const SESSION: &str = "SELECT concat(pg_backend_pid(), ' ', pg_postmaster_start_time())";

impl<P: ConnectionPool<Pg>> PostgresStore<P> {
    /// Checks whether two connections share a session, or one connection uses two. A busy pooler may hide it, so no sign proves
    /// nothing, but a sign proves a pooler.
    ///
    /// Two connections, because an idle pooler gives one connection the same session each time.
    pub(super) async fn refuse_transaction_pooling(&self) -> Result<(), StoreError> {
        match self.detects_transaction_pooling().await.map_err(or_pooler_problem)? {
            true => Err(pooler_problem("sessions of the server are shared between connections".to_owned())),
            false => Ok(()),
        }
    }

    async fn detects_transaction_pooling(&self) -> Result<bool, StoreError> {
        let mut first = self.executor.connections.acquire().await?;
        let before = session::<P>(&mut first).await?;
        // A pool of one connection has no second one, and other users of the pool may have it.
        let Ok(second) = timeout(POOLER_CHECK_WAIT, self.executor.connections.acquire()).await else {
            first.release();
            return Ok(false);
        };
        let mut second = second?;
        let other = session::<P>(&mut second).await?;
        let after = session::<P>(&mut first).await?;
        // At once: if sessions are given out in turn, `after` may be the one of `before` again.
        let again = session::<P>(&mut first).await?;
        second.release();
        first.release();
        Ok(before == other || before != after || after != again)
    }
}

async fn session<P: ConnectionPool<Pg>>(conn: &mut PoolConnection<Pg, P::Session>) -> Result<String, StoreError> {
    let rows: Vec<Read<String>> = conn.load(Statement::new(&SESSION.into(), [])).await?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// A statement prepared in one session is missing in another, or is prepared twice in one. This also happens when a pool opens or
/// tests its connections.
fn or_pooler_problem(error: StoreError) -> StoreError {
    let (StoreError::Statement(source) | StoreError::Unreachable(source)) = &error else { return error };
    let text = source.to_string();
    if text.contains("prepared statement") { pooler_problem(text) } else { error }
}

fn pooler_problem(found: String) -> StoreError {
    StoreError::Schema(SchemaProblem::Setting {
        found: format!("the database is reached through a pooler in transaction mode ({found})"),
        remedy: "give the relay the server's own address, or call .transaction_pooling() on its store; docs/pgbouncer.md says what else it needs",
    })
}
