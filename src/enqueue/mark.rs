//! The mark of a half message: an INSERT that comes first in its transaction.

#[cfg(feature = "async")]
use std::future::Future;

use diesel::backend::Backend;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::serialize::ToSql;
use diesel::sql_types::{HasSqlType, Text};
use uuid::Uuid;

use super::statement::Dialect;

/// A mark to be written.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// The table, with its schema.
    pub(crate) table: &'a str,
    pub(crate) message_id: &'a Uuid,
    pub(crate) topic: &'a str,
}

/// A database whose transactions can mark half messages through a Diesel connection `C`.
///
/// Implemented for Diesel's backends, for all of their connections. There is nothing to implement or call here.
#[diagnostic::on_unimplemented(
    message = "no half message can be marked in `{Self}` through `{C}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox",
    note = "connections of diesel-async take `mark_async`"
)]
pub trait MarkBackend<C>: Dialect {
    #[doc(hidden)]
    fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize>;
}

/// A database whose transactions can mark half messages through a diesel-async connection `C`.
///
/// Implemented for Diesel's backends, for all of their connections. There is nothing to implement or call here.
#[cfg(feature = "async")]
#[diagnostic::on_unimplemented(
    message = "no half message can be marked in `{Self}` through `{C}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox",
    note = "connections of Diesel itself take `mark`"
)]
pub trait AsyncMarkBackend<C>: Dialect {
    #[doc(hidden)]
    fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> impl Future<Output = QueryResult<usize>> + Send + 'a;
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

        impl<C> MarkBackend<C> for $backend
        where
            C: diesel::connection::LoadConnection<Backend = Self>,
        {
            fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize> {
                diesel::RunQueryDsl::execute(mark, conn)
            }
        }

        #[cfg(feature = "async")]
        impl<C> AsyncMarkBackend<C> for $backend
        where
            C: diesel_async::AsyncConnectionCore<Backend = Self>,
        {
            async fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> QueryResult<usize> {
                diesel_async::RunQueryDsl::execute(mark, conn).await
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
