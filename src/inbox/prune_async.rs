use std::future::Future;

use diesel::result::QueryResult;
use diesel_async::AsyncConnection;

use super::{Inbox, InboxError, Pruned};
use crate::enqueue::{AsyncOutboxBackend, Dialect};
use crate::hook::AsyncConn;

impl Inbox {
    /// Like [`prune`](Self::prune), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`prune`](Self::prune).
    ///
    /// # Cancel safety
    /// Some entries may be removed, and others not.
    #[expect(clippy::manual_async_fn, reason = "the signature says that the future is Send")]
    pub fn prune_async<'a, C>(
        &'a self,
        conn: &'a mut C,
    ) -> impl Future<Output = Result<Pruned, InboxError>> + Send + use<'a, C>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        async move {
            self.check_no_transaction(&mut AsyncConn(conn), "prune_async")?;
            let sql = <C::Backend as Dialect>::INBOX_PRUNE;
            self.register_async(conn).await?;
            conn.batch_execute(&self.named(sql.advance)).await?;
            let kept_from = self.kept_from(&C::Backend::texts_async(conn, &self.named(sql.start)).await?)?;
            let deleted = C::Backend::execute_text_async(conn, &self.delete_sql(sql.delete, kept_from)).await?;
            if let Some(partitions) = sql.partitions {
                for ddl in C::Backend::texts_async(conn, &self.named(partitions)).await? {
                    conn.batch_execute(&ddl).await?;
                }
            }
            Ok(Pruned::of(deleted))
        }
    }

    pub(super) async fn register_async<C>(&self, conn: &mut C) -> QueryResult<()>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        conn.batch_execute(&self.named(<C::Backend as Dialect>::INBOX_PRUNE.register)).await
    }
}
