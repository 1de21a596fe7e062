use std::collections::HashSet;

use diesel::RunQueryDsl;
use diesel::connection::LoadConnection;
use diesel::result::QueryResult;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use diesel::sql_types::Text;
use uuid::Uuid;

#[cfg(feature = "rocketmq")]
use super::mark::Mark;
use super::statement::still_there::StillThere;
use super::statement::{Dialect, Inserted, Insertion};
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

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

    /// Runs a query that returns one text a row.
    #[doc(hidden)]
    fn texts(conn: &mut C, sql: &str) -> QueryResult<Vec<String>>;

    /// Whether a row is still in its table and no relay has ever taken it.
    #[doc(hidden)]
    fn is_still_there(conn: &mut C, row: StillThere<'_>) -> QueryResult<bool>;

    /// Claims messages for a consumer.
    #[doc(hidden)]
    fn claim_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<ClaimAnswer>;

    /// Which of these messages have entries, without a claim.
    #[doc(hidden)]
    fn find_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<HashSet<Uuid>>;

    /// Runs a statement; returns the number of its rows.
    #[doc(hidden)]
    fn execute_text(conn: &mut C, sql: &str) -> QueryResult<usize>;

    /// Writes the mark of a half message.
    #[cfg(feature = "rocketmq")]
    #[doc(hidden)]
    fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize>;
}

#[cfg(feature = "postgres")]
impl<C> OutboxBackend<C> for diesel::pg::Pg
where
    C: LoadConnection<Backend = Self>,
{
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>> {
        use super::statement::postgres::{InsertMany, InsertOne, explained, inserted, inserted_one};
        match InsertOne::new(&insertion) {
            Some(one) => {
                let returned = one.load(conn).map_err(|error| explained(&insertion, error))?;
                inserted_one(&insertion, returned)
            }
            None => {
                let returned = InsertMany::new(&insertion).load(conn);
                Ok(inserted(&insertion, returned.map_err(|error| explained(&insertion, error))?))
            }
        }
    }

    fn texts(conn: &mut C, sql: &str) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(sql).load(conn)
    }

    fn is_still_there(conn: &mut C, row: StillThere<'_>) -> QueryResult<bool> {
        Ok(row.load::<i64>(conn)?.into_iter().any(|count| count > 0))
    }

    fn claim_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<ClaimAnswer> {
        use crate::inbox::statement::postgres::{Insert, InsertRecent, answer};
        match InsertRecent::new(keys) {
            Some(recent) => Ok(recent.answer(&recent.load::<i64>(conn)?)),
            None => Ok(answer(Insert::new(keys).load(conn)?)),
        }
    }

    fn find_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<HashSet<Uuid>> {
        use crate::inbox::statement::postgres::Find;
        Ok(Find::new(keys).load(conn)?.into_iter().collect())
    }

    fn execute_text(conn: &mut C, sql: &str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(conn)
    }

    #[cfg(feature = "rocketmq")]
    fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize> {
        mark.execute(conn)
    }
}

#[cfg(feature = "mysql")]
impl<C> OutboxBackend<C> for diesel::mysql::Mysql
where
    C: LoadConnection<Backend = Self>,
{
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>> {
        use super::statement::mysql::{Insert, LockKeys, explained, inserted, which_are_there};
        let locked = LockKeys::new(&insertion).map_or(Ok(0), |locks| locks.execute(conn));
        match locked.and_then(|_| Insert::new(&insertion).execute(conn)) {
            Ok(written) => inserted(&insertion, written),
            Err(error) => Err(match which_are_there(&insertion, &error) {
                Some(which) => explained(&insertion, error, which.load(conn)),
                None => error,
            }),
        }
    }

    fn texts(conn: &mut C, sql: &str) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(sql).load(conn)
    }

    fn is_still_there(conn: &mut C, row: StillThere<'_>) -> QueryResult<bool> {
        Ok(row.load::<i64>(conn)?.into_iter().any(|count| count > 0))
    }

    fn claim_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<ClaimAnswer> {
        use crate::inbox::statement::mysql::{Insert, Select, answer};
        Insert(keys).execute(conn)?;
        Ok(answer(Select(keys).load(conn)?))
    }

    fn find_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<HashSet<Uuid>> {
        use crate::inbox::statement::{mysql::Find, uuids};
        Ok(uuids(Find(keys).load(conn)?))
    }

    fn execute_text(conn: &mut C, sql: &str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(conn)
    }

    #[cfg(feature = "rocketmq")]
    fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize> {
        mark.execute(conn)
    }
}

#[cfg(feature = "sqlite")]
impl<C> OutboxBackend<C> for diesel::sqlite::Sqlite
where
    C: LoadConnection<Backend = Self>,
{
    fn insert(conn: &mut C, insertion: Insertion<'_>) -> QueryResult<Vec<Inserted>> {
        use super::statement::sqlite::{Insert, explained, inserted};
        let rows = Insert::new(&insertion).load(conn).map_err(|error| explained(&insertion, error))?;
        inserted(&insertion, rows)
    }

    fn texts(conn: &mut C, sql: &str) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(sql).load(conn)
    }

    fn is_still_there(conn: &mut C, row: StillThere<'_>) -> QueryResult<bool> {
        Ok(row.load::<i64>(conn)?.into_iter().any(|count| count > 0))
    }

    fn claim_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<ClaimAnswer> {
        use crate::inbox::statement::sqlite::{Insert, Start, answer};
        let inserted = Insert(keys).load(conn)?;
        Ok(answer(inserted, Start(keys.start).load(conn)?))
    }

    fn find_keys(conn: &mut C, keys: ClaimedKeys<'_>) -> QueryResult<HashSet<Uuid>> {
        use crate::inbox::statement::{sqlite::Find, uuids};
        Ok(uuids(Find(keys).load(conn)?))
    }

    fn execute_text(conn: &mut C, sql: &str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(conn)
    }

    #[cfg(feature = "rocketmq")]
    fn mark(conn: &mut C, mark: Mark<'_>) -> QueryResult<usize> {
        mark.execute(conn)
    }
}
