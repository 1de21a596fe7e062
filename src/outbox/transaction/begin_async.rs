use std::any::type_name;

use diesel::connection::TransactionManagerStatus;
use diesel::result::QueryResult;
use diesel_async::{AnsiTransactionManager, AsyncConnection, TransactionManager};

use super::begin::{Begin, after_rollback, watch};
use crate::enqueue::Dialect;
use crate::hook::{AsyncConn, Conn, Depth};

/// As [`begin`](super::begin::begin), over diesel-async.
pub(super) async fn begin_async<C>(conn: &mut C) -> QueryResult<Depth>
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    watch::<C::Backend>(&mut AsyncConn(conn));
    let diesels = type_name::<AnsiTransactionManager>();
    let begin = Begin::in_place_of::<C::TransactionManager, C::Backend>(&mut AsyncConn(conn), diesels)?;
    let marked = if let Some(begin) = begin {
        begin.announce(&mut AsyncConn(conn));
        // A future that is dropped here leaves the connection broken, because BEGIN may have happened.
        let before = std::mem::replace(AsyncConn(conn).status(), TransactionManagerStatus::InError);
        let begun = conn.batch_execute(&begin.sql).await;
        *AsyncConn(conn).status() = before;
        begin.enter(&mut AsyncConn(conn), begun)?
    } else {
        C::TransactionManager::begin_transaction(conn).await?;
        let at = Depth::of(&mut AsyncConn(conn))?;
        match C::Backend::transaction_mark(at.depth) {
            Some(mark) => conn.batch_execute(&mark).await,
            None => Ok(()),
        }
    };
    match marked {
        Ok(()) => Depth::of(&mut AsyncConn(conn)),
        Err(error) => Err(after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
    }
}
