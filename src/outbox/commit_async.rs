use diesel::connection::TransactionManagerStatus;
use diesel::result::QueryResult;
use diesel_async::{AsyncConnection, TransactionManager};

use crate::enqueue::Dialect;
use crate::hook::{AsyncConn, Conn, Depth};

/// Commits, and leaves no transaction open where that fails: then the session is clean, or the connection broken.
///
/// diesel-async counts a transaction whose COMMIT failed as over. It is not where COMMIT never ran (cancelled before) or
/// where SQLite was busy.
pub(crate) async fn commit_async<C>(conn: &mut C) -> QueryResult<()>
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    let committed = C::TransactionManager::commit_transaction(conn).await;
    if committed.is_err() && Depth::of(&mut AsyncConn(conn)).is_ok_and(|at| at.depth == 0) {
        // A future that is dropped here leaves the connection broken.
        let before = std::mem::replace(AsyncConn(conn).status(), TransactionManagerStatus::InError);
        match conn.batch_execute("ROLLBACK").await {
            Err(error) if !C::Backend::is_not_in_transaction_error(&error) => {}
            _ => *AsyncConn(conn).status() = before,
        }
    }
    committed
}
