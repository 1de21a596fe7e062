use std::collections::HashSet;
use std::future::Future;

use diesel::result::QueryResult;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use diesel::sql_types::Text;
use diesel_async::{AsyncConnectionCore, RunQueryDsl};
use uuid::Uuid;

#[cfg(feature = "rocketmq")]
use super::mark::Mark;
use super::statement::still_there::StillThere;
use super::statement::{Dialect, Inserted, Insertion};
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

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

    /// Runs a query that returns one text a row.
    #[doc(hidden)]
    fn texts_async<'a>(conn: &'a mut C, sql: &'a str) -> impl Future<Output = QueryResult<Vec<String>>> + Send + 'a;

    /// Whether a row is still in its table and no relay has ever taken it.
    #[doc(hidden)]
    fn is_still_there_async<'a>(
        conn: &'a mut C,
        row: StillThere<'a>,
    ) -> impl Future<Output = QueryResult<bool>> + Send + 'a;

    /// Claims messages for a consumer.
    #[doc(hidden)]
    fn claim_keys_async<'a>(
        conn: &'a mut C,
        keys: ClaimedKeys<'a>,
    ) -> impl Future<Output = QueryResult<ClaimAnswer>> + Send + 'a;

    /// Which of these messages have entries, without a claim.
    #[doc(hidden)]
    fn find_keys_async<'a>(
        conn: &'a mut C,
        keys: ClaimedKeys<'a>,
    ) -> impl Future<Output = QueryResult<HashSet<Uuid>>> + Send + 'a;

    /// Runs a statement; returns the number of its rows.
    #[doc(hidden)]
    fn execute_text_async<'a>(conn: &'a mut C, sql: &'a str) -> impl Future<Output = QueryResult<usize>> + Send + 'a;

    /// Writes the mark of a half message.
    #[cfg(feature = "rocketmq")]
    #[doc(hidden)]
    fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> impl Future<Output = QueryResult<usize>> + Send + 'a;
}

#[cfg(feature = "postgres")]
impl<C> AsyncOutboxBackend<C> for diesel::pg::Pg
where
    C: AsyncConnectionCore<Backend = Self>,
{
    async fn insert_async<'a>(conn: &'a mut C, insertion: Insertion<'a>) -> QueryResult<Vec<Inserted>> {
        use super::statement::postgres::{InsertMany, InsertOne, explained, inserted, inserted_one};
        match InsertOne::new(&insertion) {
            Some(one) => {
                let returned = one.load(conn).await.map_err(|error| explained(&insertion, error))?;
                inserted_one(&insertion, returned)
            }
            None => {
                let returned = InsertMany::new(&insertion).load(conn).await;
                Ok(inserted(&insertion, returned.map_err(|error| explained(&insertion, error))?))
            }
        }
    }

    async fn texts_async<'a>(conn: &'a mut C, sql: &'a str) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(sql).load(conn).await
    }

    async fn is_still_there_async<'a>(conn: &'a mut C, row: StillThere<'a>) -> QueryResult<bool> {
        Ok(row.load::<i64>(conn).await?.into_iter().any(|count| count > 0))
    }

    async fn claim_keys_async<'a>(conn: &'a mut C, keys: ClaimedKeys<'a>) -> QueryResult<ClaimAnswer> {
        use crate::inbox::statement::postgres::{Insert, InsertRecent, answer};
        match InsertRecent::new(keys) {
            Some(recent) => Ok(recent.answer(&recent.load::<i64>(conn).await?)),
            None => Ok(answer(Insert::new(keys).load(conn).await?)),
        }
    }

    async fn find_keys_async<'a>(conn: &'a mut C, keys: ClaimedKeys<'a>) -> QueryResult<HashSet<Uuid>> {
        use crate::inbox::statement::postgres::Find;
        Ok(Find::new(keys).load(conn).await?.into_iter().collect())
    }

    async fn execute_text_async<'a>(conn: &'a mut C, sql: &'a str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(conn).await
    }

    #[cfg(feature = "rocketmq")]
    async fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> QueryResult<usize> {
        mark.execute(conn).await
    }
}

#[cfg(feature = "mysql")]
impl<C> AsyncOutboxBackend<C> for diesel::mysql::Mysql
where
    C: AsyncConnectionCore<Backend = Self>,
{
    async fn insert_async<'a>(conn: &'a mut C, insertion: Insertion<'a>) -> QueryResult<Vec<Inserted>> {
        use super::statement::mysql::{Insert, LockKeys, explained, inserted, which_are_there};
        let locked = match LockKeys::new(&insertion) {
            Some(locks) => locks.execute(conn).await,
            None => Ok(0),
        };
        let written = match locked {
            Ok(_) => Insert::new(&insertion).execute(conn).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => inserted(&insertion, written),
            Err(error) => Err(match which_are_there(&insertion, &error) {
                Some(which) => explained(&insertion, error, which.load(conn).await),
                None => error,
            }),
        }
    }

    async fn texts_async<'a>(conn: &'a mut C, sql: &'a str) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(sql).load(conn).await
    }

    async fn is_still_there_async<'a>(conn: &'a mut C, row: StillThere<'a>) -> QueryResult<bool> {
        Ok(row.load::<i64>(conn).await?.into_iter().any(|count| count > 0))
    }

    async fn claim_keys_async<'a>(conn: &'a mut C, keys: ClaimedKeys<'a>) -> QueryResult<ClaimAnswer> {
        use crate::inbox::statement::mysql::{Insert, Select, answer};
        Insert(keys).execute(conn).await?;
        Ok(answer(Select(keys).load(conn).await?))
    }

    async fn find_keys_async<'a>(conn: &'a mut C, keys: ClaimedKeys<'a>) -> QueryResult<HashSet<Uuid>> {
        use crate::inbox::statement::{mysql::Find, uuids};
        Ok(uuids(Find(keys).load(conn).await?))
    }

    async fn execute_text_async<'a>(conn: &'a mut C, sql: &'a str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(conn).await
    }

    #[cfg(feature = "rocketmq")]
    async fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> QueryResult<usize> {
        mark.execute(conn).await
    }
}

#[cfg(feature = "sqlite")]
impl<C> AsyncOutboxBackend<C> for diesel::sqlite::Sqlite
where
    C: AsyncConnectionCore<Backend = Self>,
{
    async fn insert_async<'a>(conn: &'a mut C, insertion: Insertion<'a>) -> QueryResult<Vec<Inserted>> {
        use super::statement::sqlite::{Insert, explained, inserted};
        let rows = Insert::new(&insertion).load(conn).await.map_err(|error| explained(&insertion, error))?;
        inserted(&insertion, rows)
    }

    async fn texts_async<'a>(conn: &'a mut C, sql: &'a str) -> QueryResult<Vec<String>> {
        diesel::dsl::sql::<Text>(sql).load(conn).await
    }

    async fn is_still_there_async<'a>(conn: &'a mut C, row: StillThere<'a>) -> QueryResult<bool> {
        Ok(row.load::<i64>(conn).await?.into_iter().any(|count| count > 0))
    }

    async fn claim_keys_async<'a>(conn: &'a mut C, keys: ClaimedKeys<'a>) -> QueryResult<ClaimAnswer> {
        use crate::inbox::statement::sqlite::{Insert, Start, answer};
        let inserted = Insert(keys).load(conn).await?;
        Ok(answer(inserted, Start(keys.start).load(conn).await?))
    }

    async fn find_keys_async<'a>(conn: &'a mut C, keys: ClaimedKeys<'a>) -> QueryResult<HashSet<Uuid>> {
        use crate::inbox::statement::{sqlite::Find, uuids};
        Ok(uuids(Find(keys).load(conn).await?))
    }

    async fn execute_text_async<'a>(conn: &'a mut C, sql: &'a str) -> QueryResult<usize> {
        diesel::sql_query(sql).execute(conn).await
    }

    #[cfg(feature = "rocketmq")]
    async fn mark_async<'a>(conn: &'a mut C, mark: Mark<'a>) -> QueryResult<usize> {
        mark.execute(conn).await
    }
}
