//! The day partitions of the history: created ahead, and dropped whole.
//!
//! PostgreSQL cannot DETACH CONCURRENTLY if there is a default partition. Without one, a settle fails on the first day without a
//! partition. So a partition is dropped with its parent locked. That is short: claims lock the history only in their last
//! statement, so only a reader can delay the lock. Then the drop fails and is tried again in the next run.

use std::time::Duration;

use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::pg::Pg;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Bool, Text};

use super::PostgresStore;
use super::bind::PgBind;
use crate::clock::millis;
use crate::lane::fnv1a;
use crate::limits::{PARTITION_DAYS_AHEAD, PARTITION_DROP_LOCK_TIMEOUT, PARTITION_LOCK_TIMEOUT};
use crate::store::StoreError;
use crate::store::pool::ConnectionPool;
use crate::store::sql::dialect::{Bind, Statement};

const TRY_ADVISORY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)";

impl<P: ConnectionPool<Pg>> PostgresStore<P> {
    /// Creates the partitions, from today on, for rows that are kept for these numbers of days.
    pub(super) async fn make_partitions(&self, days: &[u32]) -> Result<(), StoreError> {
        let days: Vec<i32> = days.iter().map(|&days| i32::try_from(days).unwrap_or(i32::MAX)).collect();
        let history = self.names.history();
        let find = || {
            let ahead = Bind::Number(PARTITION_DAYS_AHEAD.into());
            let binds = [Bind::Text(history.as_str().into()), PgBind::Ints(days.clone()).into(), ahead];
            Statement::new(&self.sql.retention.missing_days, binds)
        };
        // Attached, not created as PARTITION OF, which locks the parent against everybody.
        let make = |MissingDay { name, from, to }: &MissingDay| {
            format!(
                "CREATE TABLE {history}_{name} (LIKE {history} INCLUDING ALL); \
                 ALTER TABLE {history} ATTACH PARTITION {history}_{name} FOR VALUES FROM ('{from}') TO ('{to}')"
            )
        };
        self.under_advisory_lock(PARTITION_LOCK_TIMEOUT, find, make).await.map(drop)
    }

    /// Drops the oldest expired partition; returns its estimated row count, if there was one.
    pub(super) async fn drop_partition(&self) -> Result<Option<usize>, StoreError> {
        let (history, prefix) = (self.names.history(), format!("{}_", self.names.unqualified("history")));
        let find = || {
            let binds = [Bind::Text(history.as_str().into()), Bind::Text(prefix.as_str().into())];
            Statement::new(&self.sql.retention.expired_day, binds)
        };
        let drop = |ExpiredDay { name, .. }: &ExpiredDay| format!("DROP TABLE {history}_{name}");
        let dropped = self.under_advisory_lock(PARTITION_DROP_LOCK_TIMEOUT, find, drop).await?;
        Ok(dropped.first().map(|day| usize::try_from(day.rows).unwrap_or(0)))
    }

    /// Checks, and if there is something to do, checks again under a lock and runs DDL for each item found then. Does nothing if
    /// another node holds the lock.
    async fn under_advisory_lock<T>(
        &self,
        lock_timeout: Duration,
        find: impl Fn() -> Statement<Pg>,
        ddl: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<Pg> + Send + 'static,
    {
        if self.executor.load::<T>(find()).await?.is_empty() {
            return Ok(Vec::new());
        }
        let connections = &self.executor.connections;
        connections
            .within(async {
                let mut conn = connections.acquire().await?;
                // ATTACH reads the default partition while it locks it: that must not delay settles for long either.
                let (lock_timeout, timeout) = (millis(lock_timeout), millis(lock_timeout * 2));
                let begin = format!(
                    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = {lock_timeout}; \
                     SET LOCAL statement_timeout = {timeout}"
                );
                conn.begin(begin.into()).await?;
                let lock = Bind::Number(i64::from_ne_bytes(fnv1a(&self.names.history()).to_ne_bytes()));
                let locked: Vec<Locked> = conn.load(Statement::new(&TRY_ADVISORY_LOCK.into(), [lock])).await?;
                let mut found = Vec::new();
                if locked.iter().any(|locked| locked.0) {
                    found = conn.load(find()).await?;
                    let ddl: Vec<String> = found.iter().map(&ddl).collect();
                    if !ddl.is_empty() {
                        conn.batch(&ddl.join("; ").into()).await?;
                    }
                }
                conn.commit().await?;
                conn.release();
                Ok(found)
            })
            .await
    }
}

struct Locked(bool);

impl QueryableByName<Pg> for Locked {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        row.get_value::<Bool, _, _>(0).map(Self)
    }
}

/// A day without a partition: its name part and its bounds.
struct MissingDay {
    name: String,
    from: String,
    to: String,
}

impl QueryableByName<Pg> for MissingDay {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        let text = |column| row.get_value::<Text, String, _>(column);
        Ok(Self { name: text(0)?, from: text(1)?, to: text(2)? })
    }
}

/// An expired partition.
struct ExpiredDay {
    name: String,
    rows: i64,
}

impl QueryableByName<Pg> for ExpiredDay {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> RowResult<Self> {
        Ok(Self { name: row.get_value::<Text, _, _>(0)?, rows: row.get_value::<BigInt, _, _>(1)? })
    }
}
