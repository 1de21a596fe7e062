//! Notices by NOTIFY: sent through the store's pool, received over a separate connection.

use async_trait::async_trait;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::PgBind;
use crate::store::pool::{ConnectionPool, within};
use crate::store::sql::dialect::Statement;
use crate::store::sql::rows::Read;
use crate::store::{NoticeStore, NoticeStream, StoreError};

#[async_trait]
impl<P: ConnectionPool<Pg>> NoticeStore for PostgresStore<P> {
    async fn notify(&self, notices: &[String]) -> Result<(), StoreError> {
        if self.extra.is_none() {
            return Ok(());
        }
        // Sent at the end of its transaction, which is this statement.
        self.execute(&self.sql.notices.notify, [PgBind::Texts(notices.to_vec()).into()]).await.map(drop)
    }

    async fn listen(&self) -> Result<Box<dyn NoticeStream>, StoreError> {
        let Some(connection) = &self.extra else {
            return Err(StoreError::Unreachable(
                "no connection for notices is configured: set one with .notice_connection(..)".into(),
            ));
        };
        let found: Vec<Read<String>> = self.executor.poll(Statement::new(&self.sql.notices.channel, [])).await?;
        let Some(Read(channel)) = found.into_iter().next() else {
            return Err(StoreError::Statement("the database returned no channel for notices".into()));
        };
        within(self.executor.connections.deadline(), connection.open(&channel)).await
    }
}
