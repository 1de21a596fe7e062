use std::future::Future;

use diesel::result::QueryResult;
use diesel_async::{AsyncConnectionCore, RunQueryDsl};

use super::statement::{Dialect, Inserted, Insertion};

/// A database that the outbox can write to through a diesel-async connection `C`.
///
/// Implemented for Diesel's backends, once for all of their connections: plain ones and those of bb8, deadpool, mobc
/// and other pools. There is nothing to implement or call here. Its methods are private to the outbox and change
/// without notice.
#[diagnostic::on_unimplemented(
    message = "the outbox cannot write to `{Self}` through `{C}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox",
    note = "connections of Diesel itself take the methods that do not end in `_async`"
)]
pub trait AsyncOutboxBackend<C>: Dialect {
    /// Inserts the rows in one statement; returns an [`Inserted`] for each.
    #[doc(hidden)]
    fn insert_async<'a>(
        conn: &'a mut C,
        insertion: Insertion<'a>,
    ) -> impl Future<Output = QueryResult<Vec<Inserted>>> + Send + 'a;
}

#[cfg(feature = "postgres")]
impl<C> AsyncOutboxBackend<C> for diesel::pg::Pg
where
    C: AsyncConnectionCore<Backend = Self>,
{
    async fn insert_async<'a>(conn: &'a mut C, insertion: Insertion<'a>) -> QueryResult<Vec<Inserted>> {
        use super::statement::postgres::{InsertMany, InsertOne, inserted, inserted_one};
        match InsertOne::new(&insertion) {
            Some(one) => inserted_one(&insertion, one.load(conn).await?),
            None => Ok(inserted(&insertion, InsertMany::new(&insertion).load(conn).await?)),
        }
    }
}

#[cfg(feature = "mysql")]
impl<C> AsyncOutboxBackend<C> for diesel::mysql::Mysql
where
    C: AsyncConnectionCore<Backend = Self>,
{
    async fn insert_async<'a>(conn: &'a mut C, insertion: Insertion<'a>) -> QueryResult<Vec<Inserted>> {
        use super::statement::mysql::{Insert, LockKeys, inserted};
        if let Some(locks) = LockKeys::new(&insertion) {
            locks.execute(conn).await?;
        }
        let written = Insert::new(&insertion).execute(conn).await?;
        inserted(&insertion, written)
    }
}

#[cfg(feature = "sqlite")]
impl<C> AsyncOutboxBackend<C> for diesel::sqlite::Sqlite
where
    C: AsyncConnectionCore<Backend = Self>,
{
    async fn insert_async<'a>(conn: &'a mut C, insertion: Insertion<'a>) -> QueryResult<Vec<Inserted>> {
        use super::statement::sqlite::{Insert, inserted};
        let rows = Insert::new(&insertion).load(conn).await?;
        inserted(&insertion, rows)
    }
}
