//! Checks whether an enqueued row is still in its table. It reads by the primary key, which costs next to nothing.

#[cfg(feature = "mysql")]
use diesel::mysql::Mysql;
#[cfg(feature = "postgres")]
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::BigInt;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
use diesel::sql_types::Binary;
#[cfg(feature = "postgres")]
use diesel::sql_types::Uuid as SqlUuid;
#[cfg(feature = "sqlite")]
use diesel::sqlite::Sqlite;

use crate::store::RowRef;

/// Counts the row if no relay has ever taken it.
#[derive(Debug)]
pub struct StillThere<'a> {
    table: &'a str,
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    id: i64,
    #[cfg(feature = "postgres")]
    message_id: uuid::Uuid,
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    message_id_bytes: [u8; 16],
}

impl<'a> StillThere<'a> {
    pub(crate) fn new(table: &'a str, row: RowRef) -> Self {
        Self {
            table,
            #[cfg(any(feature = "postgres", feature = "sqlite"))]
            id: row.id.unwrap_or_default(),
            #[cfg(feature = "postgres")]
            message_id: *row.message_id.as_uuid(),
            #[cfg(any(feature = "mysql", feature = "sqlite"))]
            message_id_bytes: *row.message_id.as_uuid().as_bytes(),
        }
    }
}

impl Query for StillThere<'_> {
    type SqlType = BigInt;
}

impl QueryId for StillThere<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for StillThere<'_> {}

/// Only a row that is older than this transaction counts: the transaction also sees its own rows, which are not committed.
#[cfg(feature = "postgres")]
impl QueryFragment<Pg> for StillThere<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("SELECT count(*) FROM ");
        out.push_sql(self.table);
        out.push_sql(" WHERE id = ");
        out.push_bind_param::<BigInt, _>(&self.id)?;
        out.push_sql(" AND message_id = ");
        out.push_bind_param::<SqlUuid, _>(&self.message_id)?;
        out.push_sql(" AND epoch = 0 AND created_at < now()");
        Ok(())
    }
}

#[cfg(feature = "mysql")]
impl QueryFragment<Mysql> for StillThere<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        out.push_sql("SELECT count(*) FROM ");
        out.push_sql(self.table);
        out.push_sql(" WHERE message_id = ");
        out.push_bind_param::<Binary, _>(&self.message_id_bytes[..])?;
        out.push_sql(" AND epoch = 0");
        Ok(())
    }
}

#[cfg(feature = "sqlite")]
impl QueryFragment<Sqlite> for StillThere<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("SELECT count(*) FROM ");
        out.push_sql(self.table);
        out.push_sql(" WHERE id = ");
        out.push_bind_param::<BigInt, _>(&self.id)?;
        out.push_sql(" AND message_id = ");
        out.push_bind_param::<Binary, _>(&self.message_id_bytes[..])?;
        out.push_sql(" AND epoch = 0");
        Ok(())
    }
}
