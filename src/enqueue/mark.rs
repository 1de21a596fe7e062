//! The mark of a half message: the INSERT that its transaction begins with.

#[cfg(feature = "async")]
use std::future::Future;

use diesel::result::QueryResult;
use uuid::Uuid;

/// A mark to be written.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// The table, with its schema.
    pub(crate) table: &'a str,
    pub(crate) message_id: &'a Uuid,
    pub(crate) topic: &'a str,
}

/// A database whose transactions can mark half messages through a connection `C` of Diesel.
///
/// Implemented for PostgreSQL, for every connection of it. There is nothing to implement or call here.
#[diagnostic::on_unimplemented(
    message = "no half message can be marked in `{Self}` through `{C}`",
    note = "half messages need PostgreSQL and the feature `postgres`",
    note = "connections of diesel-async take `mark_async`"
)]
pub trait MarkBackend<C> {
    #[doc(hidden)]
    fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize>;
}

/// A database whose transactions can mark half messages through a connection `C` of diesel-async.
///
/// Implemented for PostgreSQL, for every connection of it. There is nothing to implement or call here.
#[cfg(feature = "async")]
#[diagnostic::on_unimplemented(
    message = "no half message can be marked in `{Self}` through `{C}`",
    note = "half messages need PostgreSQL and the feature `postgres`",
    note = "connections of Diesel itself take `mark`"
)]
pub trait AsyncMarkBackend<C> {
    #[doc(hidden)]
    fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> impl Future<Output = QueryResult<usize>> + Send + 'a;
}

#[cfg(feature = "postgres")]
mod postgres {
    use diesel::pg::Pg;
    use diesel::query_builder::{AstPass, QueryFragment, QueryId};
    use diesel::sql_types::{Text, Uuid as SqlUuid};

    use super::{Mark, QueryResult};

    impl QueryFragment<Pg> for Mark<'_> {
        fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
            out.push_sql("INSERT INTO ");
            out.push_sql(self.table);
            out.push_sql(" (message_id, topic) VALUES (");
            out.push_bind_param::<SqlUuid, _>(self.message_id)?;
            out.push_sql(", ");
            out.push_bind_param::<Text, _>(self.topic)?;
            out.push_sql(")");
            Ok(())
        }
    }

    impl QueryId for Mark<'_> {
        type QueryId = ();
        const HAS_STATIC_QUERY_ID: bool = false;
    }

    impl<C> diesel::RunQueryDsl<C> for Mark<'_> {}

    impl<C> super::MarkBackend<C> for Pg
    where
        C: diesel::connection::LoadConnection<Backend = Self>,
    {
        fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize> {
            diesel::RunQueryDsl::execute(mark, conn)
        }
    }

    #[cfg(feature = "async")]
    impl<C> super::AsyncMarkBackend<C> for Pg
    where
        C: diesel_async::AsyncConnectionCore<Backend = Self>,
    {
        async fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> QueryResult<usize> {
            diesel_async::RunQueryDsl::execute(mark, conn).await
        }
    }
}
