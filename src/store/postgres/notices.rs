//! Notices by NOTIFY: sent through the store's pool, heard over a connection of their own.

use std::sync::Arc;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::Text;

use super::PostgresStore;
use super::bind::Bind;
use super::notice_connection::NoticeConnection;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, named};
use crate::store::session::{Sessions, within};
use crate::store::statement::Statement;
use crate::store::{NoticeStore, Notices, StoreError};

/// Where notices come from, and the statements for them.
#[derive(Debug)]
pub(super) struct NoticeSide {
    pub(super) connection: NoticeConnection,
    tell: Arc<str>,
    channel: Arc<str>,
}

// The channel has the number of the table in its name and not the schema: it would be too long for the 63 bytes of a name, and
// another one for a process that finds the table by its search path.
const TELL: &str = "
SELECT pg_notify('outbox_lanes_' || 'outbox_lanes'::regclass::oid::text, told) FROM unnest($1) told";

const CHANNEL: &str = "SELECT 'outbox_lanes_' || 'outbox_lanes'::regclass::oid::text";

impl NoticeSide {
    pub(super) fn new(connection: NoticeConnection, names: &TableNames) -> Self {
        let text = |sql: &str| named(sql, names, IndexNaming::ByTable).into();
        Self { connection, tell: text(TELL), channel: text(CHANNEL) }
    }
}

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
