//! Notices by NOTIFY: sent through the store's pool, heard over a connection of their own.

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::Text;

use super::PostgresStore;
use super::bind::Bind;
use crate::store::session::{Sessions, within};
use crate::store::statement::Statement;
use crate::store::{NoticeStore, Notices, StoreError};

#[async_trait]
impl<P: Sessions<Pg>> NoticeStore for PostgresStore<P> {
    async fn tell(&self, notices: &[String]) -> Result<(), StoreError> {
        let Some(side) = &self.notices else { return Ok(()) };
        let statement = Statement::new(&side.tell, [Bind::Texts(notices.to_vec())]);
        // Passed on at the end of its transaction, which is this statement.
        self.connections.execute(statement).await.map(drop)
    }

    async fn listen(&self) -> Result<Box<dyn Notices>, StoreError> {
        let Some(side) = &self.notices else { return Err(StoreError::Unreachable("no connection was given".into())) };
        let found: Vec<Channel> = self.connections.poll(Statement::new(&side.channel, [])).await?;
        let Some(Channel(channel)) = found.into_iter().next() else {
            return Err(StoreError::Statement("no channel was named".into()));
        };
        within(self.connections.deadline(), side.connection.open(&channel)).await
    }
}

struct Channel(String);

impl QueryableByName<Pg> for Channel {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        Ok(Self(row.get_value::<Text, _, _>(0)?))
    }
}
