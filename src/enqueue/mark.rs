//! The mark of a half message: an INSERT that comes first in its transaction.

use diesel::backend::Backend;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::serialize::ToSql;
use diesel::sql_types::{HasSqlType, Text};
use uuid::Uuid;

/// A mark to be written.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// The table, with its schema.
    pub(crate) table: &'a str,
    pub(crate) message_id: &'a Uuid,
    pub(crate) topic: &'a str,
}

impl Mark<'_> {
    /// The INSERT. `bind_id` binds the id.
    fn walk<'b, DB: Backend + HasSqlType<Text>>(
        &'b self,
        mut out: AstPass<'_, 'b, DB>,
        bind_id: impl FnOnce(&mut AstPass<'_, 'b, DB>, &'b Uuid) -> QueryResult<()>,
        guard: [&str; 2],
    ) -> QueryResult<()>
    where
        str: ToSql<Text, DB>,
    {
        let [guard_begin, guard_end] = guard;
        out.push_sql("INSERT INTO ");
        out.push_sql(self.table);
        out.push_sql(" (message_id, topic) VALUES (");
        bind_id(&mut out, self.message_id)?;
        out.push_sql(", ");
        out.push_sql(guard_begin);
        out.push_bind_param::<Text, str>(self.topic)?;
        out.push_sql(guard_end);
        out.push_sql(")");
        Ok(())
    }
}

impl QueryId for Mark<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for Mark<'_> {}

macro_rules! marks {
    ($backend:ty, $bind_id:expr, $guard:expr) => {
        impl QueryFragment<$backend> for Mark<'_> {
            fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, $backend>) -> QueryResult<()> {
                self.walk(out, $bind_id, $guard)
            }
        }
    };
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
macro_rules! bytes {
    () => {
        |out, id| out.push_bind_param::<diesel::sql_types::Binary, [u8]>(id.as_bytes())
    };
}

#[cfg(feature = "postgres")]
marks!(diesel::pg::Pg, |out, id| out.push_bind_param::<diesel::sql_types::Uuid, Uuid>(id), [""; 2]);
// A deadlock or DDL may have ended the transaction unnoticed, and the mark would commit by itself.
#[cfg(feature = "mysql")]
marks!(diesel::mysql::Mysql, bytes!(), [super::statement::mysql::GUARD_BEGIN, super::statement::mysql::GUARD_END]);
#[cfg(feature = "sqlite")]
marks!(diesel::sqlite::Sqlite, bytes!(), [""; 2]);
