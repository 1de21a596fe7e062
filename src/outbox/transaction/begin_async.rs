use std::any::type_name;

use diesel::connection::TransactionManagerStatus;
use diesel::result::QueryResult;
use diesel_async::{AnsiTransactionManager, AsyncConnection, TransactionManager};

use super::begin::{Begin, after_rollback, install_hook_if_needed};
use crate::enqueue::Dialect;
use crate::hook::{AsyncConn, Conn, Depth};

/// Like [`begin`](super::begin::begin), over diesel-async.
pub(super) async fn begin_async<C>(conn: &mut C) -> QueryResult<Depth>
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    install_hook_if_needed::<C::Backend>(&mut AsyncConn(conn));
    let diesel_manager = type_name::<AnsiTransactionManager>();
    let begin = Begin::replacing::<C::TransactionManager, C::Backend>(&mut AsyncConn(conn), diesel_manager)?;
    let marked = if let Some(begin) = begin {
        begin.announce(&mut AsyncConn(conn));
        // A future dropped here leaves the connection broken, because BEGIN may have happened.
        let before = std::mem::replace(AsyncConn(conn).status(), TransactionManagerStatus::InError);
        let begun = conn.batch_execute(&begin.sql).await;
        *AsyncConn(conn).status() = before;
        begin.enter(&mut AsyncConn(conn), begun)?
    } else {
        C::TransactionManager::begin_transaction(conn).await?;
        let at = Depth::of(&mut AsyncConn(conn))?;
        match C::Backend::transaction_flag_sql(at.depth) {
            Some(flag_sql) => conn.batch_execute(&flag_sql).await,
            None => Ok(()),
        }
    };
    match marked {
        Ok(()) => Depth::of(&mut AsyncConn(conn)),
        Err(error) => Err(after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
    }
}
