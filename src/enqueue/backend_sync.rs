use diesel::RunQueryDsl;
use diesel::connection::LoadConnection;
use diesel::result::QueryResult;

use super::statement::{Dialect, Inserted, Insertion};

/// A database that the outbox can write to through a Diesel connection `C`.
///
/// Implemented for Diesel's backends, once for all of their connections: plain ones, r2d2's, and those of other crates.
/// There is nothing to implement or call here. Its methods are private to the outbox and change without notice.
#[diagnostic::on_unimplemented(
    message = "the outbox cannot write to `{Self}` through `{C}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of diesel-outbox",
    note = "connections of diesel-async take the methods that end in `_async`"
)]
pub trait OutboxBackend<C>: Dialect {
    /// Inserts the rows in one statement; returns an [`Inserted`] for each.
    #[doc(hidden)]
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>>;
}

#[cfg(feature = "postgres")]
impl<C> OutboxBackend<C> for diesel::pg::Pg
where
    C: LoadConnection<Backend = Self>,
{
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>> {
        use super::statement::postgres::{InsertMany, InsertOne, inserted, inserted_one};
        match InsertOne::new(&insertion) {
            Some(one) => inserted_one(&insertion, one.load(conn)?),
            None => Ok(inserted(&insertion, InsertMany::new(&insertion).load(conn)?)),
        }
    }
}

#[cfg(feature = "mysql")]
impl<C> OutboxBackend<C> for diesel::mysql::Mysql
where
    C: LoadConnection<Backend = Self>,
{
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>> {
        use super::statement::mysql::{Insert, LockKeys, inserted};
        if let Some(locks) = LockKeys::new(&insertion) {
            locks.execute(conn)?;
        }
        let written = Insert::new(&insertion).execute(conn)?;
        inserted(&insertion, written)
    }
}

#[cfg(feature = "sqlite")]
impl<C> OutboxBackend<C> for diesel::sqlite::Sqlite
where
    C: LoadConnection<Backend = Self>,
{
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>> {
        use super::statement::sqlite::{Insert, inserted};
        let rows = Insert::new(&insertion).load(conn)?;
        inserted(&insertion, rows)
    }
}
