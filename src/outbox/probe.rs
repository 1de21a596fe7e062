//! Checks whether the transaction that a connection counts as open is over, on databases where only a statement shows it.

use diesel::connection::Connection;
use diesel::result::QueryResult;

use crate::enqueue::Dialect;
use crate::hook::{Depth, SyncConn, expect_probe};

/// Whether no transaction is open where the connection counts one. One more that raw SQL began is taken for it.
pub(crate) fn is_transaction_lost<C>(conn: &mut C, at: Depth) -> QueryResult<bool>
where
    C: Connection,
    C::Backend: Dialect,
{
    let Some(probe) = C::Backend::PROBE.filter(|_| at.depth > 0) else { return Ok(false) };
    expect_probe(&mut SyncConn(conn), probe);
    interpret_probe::<C::Backend>(conn.batch_execute(probe))
}

/// As [`is_transaction_lost`], over diesel-async.
#[cfg(feature = "async")]
pub(crate) async fn is_transaction_lost_async<C>(conn: &mut C, at: Depth) -> QueryResult<bool>
where
    C: diesel_async::AsyncConnection,
    C::Backend: Dialect,
{
    let Some(probe) = C::Backend::PROBE.filter(|_| at.depth > 0) else { return Ok(false) };
    expect_probe(&mut crate::hook::AsyncConn(conn), probe);
    interpret_probe::<C::Backend>(conn.batch_execute(probe).await)
}

fn interpret_probe<B: Dialect>(probed: QueryResult<()>) -> QueryResult<bool> {
    match probed {
        Ok(()) => Ok(true),
        Err(error) if B::is_in_transaction_error(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
