//! Notices by NOTIFY: sent through the store's pool, heard over a connection of their own.

use async_trait::async_trait;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::Own;
use crate::store::session::{Sessions, within};
use crate::store::sql::rows::Read;
use crate::store::statement::Statement;
use crate::store::{NoticeStore, Notices, StoreError};

#[async_trait]
impl<P: Sessions<Pg>> NoticeStore for PostgresStore<P> {
    async fn tell(&self, notices: &[String]) -> Result<(), StoreError> {
        if self.beside.is_none() {
            return Ok(());
        }
        // Passed on at the end of its transaction, which is this statement.
        self.execute(&self.texts.notices.tell, [Own::Texts(notices.to_vec()).into()]).await.map(drop)
    }

    async fn listen(&self) -> Result<Box<dyn Notices>, StoreError> {
        let Some(connection) = &self.beside else {
            return Err(StoreError::Unreachable("no connection was given".into()));
        };
        let found: Vec<Read<String>> = self.calls.poll(Statement::new(&self.texts.notices.channel, [])).await?;
        let Some(Read(channel)) = found.into_iter().next() else {
            return Err(StoreError::Statement("no channel was named".into()));
        };
        within(self.calls.connections.deadline(), connection.open(&channel)).await
    }
}
