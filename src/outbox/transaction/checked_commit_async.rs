use std::any::type_name;

use diesel::connection::TransactionManagerStatus;
use diesel::result::{Error, QueryResult};
use diesel_async::{AnsiTransactionManager, AsyncConnection, TransactionManager};

use super::begin::install_hook_if_needed;
use super::checked_commit::{CommitError, CommitPlan, check_of, has_lost_by_deadlock, record_end, why};
use crate::enqueue::Dialect;
use crate::hook::{AsyncConn, Conn, Depth, announce_commit};
use crate::outbox::commit_async::commit_async;

/// Like [`begin_checked`](super::checked_commit::begin_checked), over diesel-async.
pub(crate) async fn begin_checked_async<C>(conn: &mut C) -> QueryResult<()>
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    install_hook_if_needed::<C::Backend>(&mut AsyncConn(conn));
    C::TransactionManager::begin_transaction(conn).await
}

/// Like [`commit_checked`](super::checked_commit::commit_checked), over diesel-async.
pub(crate) async fn commit_checked_async<C>(conn: &mut C) -> Result<(), CommitError>
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    let at = Depth::of(&mut AsyncConn(conn))?;
    if has_lost_by_deadlock::<C::Backend>(&mut AsyncConn(conn)) {
        // Its error says nothing more, and leaves the connection broken.
        drop(C::TransactionManager::rollback_transaction(conn).await);
        return Err(CommitError::Lost);
    }
    let text = match CommitPlan::of::<C::TransactionManager, C::Backend>(at, type_name::<AnsiTransactionManager>()) {
        CommitPlan::Plain => return Ok(commit_async(conn).await?),
        CommitPlan::CheckThenPlain(check) => match conn.batch_execute(check).await {
            Ok(()) => return Ok(commit_async(conn).await?),
            Err(error) => return Err(roll_back(conn, error, check).await),
        },
        CommitPlan::Together(text) => text,
    };
    announce_commit(&mut AsyncConn(conn), 0);
    // A future that is dropped here leaves the connection broken: COMMIT may have happened.
    let before = std::mem::replace(AsyncConn(conn).status(), TransactionManagerStatus::InError);
    let committed = conn.batch_execute(text).await;
    *AsyncConn(conn).status() = before;
    match committed {
        Ok(()) => Ok(record_end(&mut AsyncConn(conn))?),
        Err(error) => Err(roll_back(conn, error, check_of(text)).await),
    }
}

async fn roll_back<C>(conn: &mut C, error: Error, check: &str) -> CommitError
where
    C: AsyncConnection,
    C::Backend: Dialect,
{
    let is_aborted = C::Backend::ERRORS_END_TRANSACTION && conn.batch_execute(check).await.is_err();
    why::<C::Backend>(error, is_aborted, C::TransactionManager::rollback_transaction(conn).await)
}
