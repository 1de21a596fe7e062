//! How a claim runs. Its SQL is in `store/sql/statements/claims.rs`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sqlite::Sqlite;

use super::database::history_inserts;
use super::{BEGIN, SqliteStore};
use crate::clock::millis;
use crate::store::decode::{RawRow, next_epoch};
use crate::store::pool::{ConnectionPool, PoolConnection, Session};
use crate::store::sql::binds::Binds;
use crate::store::sql::database::append_binds;
use crate::store::sql::dialect::{Bind, Statement};
use crate::store::sql::executor::Executor;
use crate::store::sql::read_value::Columns;
use crate::store::sql::row_batch::RowBatch;
use crate::store::sql::rows::{Read, raw_row};
use crate::store::sql::statements::Sql;
use crate::store::sql::text::StatementSql;
use crate::store::{
    Claim, ClaimHandle, ClaimMode, ClaimSpec, Closed, DueWatermark, Held, HistoryRow, Keep, RowKey, StoreError,
};

impl<P: ConnectionPool<Sqlite>> SqliteStore<P> {
    pub(super) async fn open_claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let opening = OpeningClaim { sql: Arc::clone(&self.sql), spec: spec.clone() };
        let (watermark, rows) = self.executor.run(|conn| Box::pin(opening.run(conn))).await?;
        let leased = rows.iter().map(|row| Held { key: row.key, epoch: row.epoch }).collect();
        Ok(Claim {
            rows: rows.into_iter().map(|row| row.decode(&spec.topic)).collect(),
            mode: ClaimMode::Leased,
            watermark,
            // Leased rows leave the range, and so the index entries.
            reached: None,
            found_all: watermark.is_some(),
            handle: Box::new(LeasedClaim {
                executor: self.executor.clone(),
                sql: Arc::clone(&self.sql),
                leased,
                lease_duration: spec.lease_duration,
                keep: spec.keep,
            }),
        })
    }
}

/// A claim being opened.
struct OpeningClaim {
    sql: Arc<Sql>,
    spec: ClaimSpec,
}

impl OpeningClaim {
    async fn run<S: Session<Sqlite>>(
        self,
        conn: &mut PoolConnection<Sqlite, S>,
    ) -> Result<(Option<DueWatermark>, Vec<RawRow>), StoreError> {
        let Self { sql, spec } = self;
        conn.begin(BEGIN.into()).await?;
        let binds = [
            Bind::text(&spec.topic),
            Bind::Number(spec.after.map_or(i64::MIN, DueWatermark::next)),
            Bind::limit(spec.rows_max),
            Bind::limit(spec.bytes_max),
        ];
        let read: Vec<DueRow> = conn.load(Statement::new(&sql.claims.claim, binds)).await?;
        let (watermark, rows) = leased_rows(read, &spec);
        if !rows.is_empty() {
            let ids = Sqlite::rows(&rows.iter().map(|row| row.key.id).collect::<Vec<_>>());
            let binds = [ids, Bind::Number(millis(spec.lease_duration))];
            conn.execute(Statement::new(&sql.claims.lease, binds)).await?;
        }
        conn.commit().await?;
        Ok((watermark, rows))
    }
}

/// The rows as they will be leased, oldest first, and where the next claim may begin: nobody else can write during this
/// transaction, so below its time only rows that are not yet committed can be missing.
fn leased_rows(read: Vec<DueRow>, spec: &ClaimSpec) -> (Option<DueWatermark>, Vec<RawRow>) {
    let slack = millis(spec.watermark_slack_duration);
    let whole = read.first().map(|row| (row.read_at, usize::try_from(row.found).unwrap_or(usize::MAX)));
    let mut due: Vec<(i64, RawRow)> = read.into_iter().filter_map(|row| row.row).collect();
    due.sort_by_key(|(due_at, row)| (*due_at, row.key.id));
    let rows: Vec<RawRow> = due.into_iter().map(|(_, row)| RawRow { epoch: next_epoch(row.epoch), ..row }).collect();
    let is_under_full = |found| found < spec.rows_max && found == rows.len();
    let watermark = whole.filter(|&(_, found)| is_under_full(found)).map(|(read_at, _)| DueWatermark(read_at - slack));
    (watermark, rows)
}

/// A row of the statement that reads due rows: values for the whole result, and a row if there is one.
struct DueRow {
    read_at: i64,
    /// How many were found before the byte limit applied.
    found: i64,
    row: Option<(i64, RawRow)>,
}

impl QueryableByName<Sqlite> for DueRow {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        let due = match Sqlite::optional_number(row, 2)? {
            Some(due_at) => Some((due_at, raw_row::<Sqlite>(row, 3)?)),
            None => None,
        };
        Ok(Self { read_at: Sqlite::number(row, 0)?, found: Sqlite::number(row, 1)?, row: due })
    }
}

/// A claim whose rows are leased.
struct LeasedClaim<P: ConnectionPool<Sqlite>> {
    executor: Executor<Sqlite, P>,
    sql: Arc<Sql>,
    leased: Vec<Held>,
    lease_duration: Duration,
    keep: Option<Keep>,
}

#[async_trait]
impl<P: ConnectionPool<Sqlite>> ClaimHandle for LeasedClaim<P> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let closing = self.closing(delivered, held);
        if closing.settle.is_none() && closing.lease_in_flight.is_none() && closing.release.is_none() {
            return Ok(Closed::default());
        }
        self.executor.run(|conn| Box::pin(closing.run(conn))).await
    }
}

impl<P: ConnectionPool<Sqlite>> LeasedClaim<P> {
    fn closing(&self, delivered: &[RowKey], held: &[RowKey]) -> Closing {
        let (delivered_keys, held_keys): (HashSet<_>, HashSet<_>) = (delivered.iter().collect(), held.iter().collect());
        let open = self.leased.iter().filter(|row| !delivered_keys.contains(&row.key));
        let (held, unused): (Vec<Held>, Vec<Held>) = open.partition(|row| held_keys.contains(&row.key));
        let sql = &self.sql.claims;
        let statement = |text: &StatementSql, batch: RowBatch, rest: &[_]| {
            let is_any = !batch.rows.is_empty();
            is_any.then(|| Statement::new(text, append_binds(Sqlite::row_batch(&batch, text.first()), rest)))
        };
        let held_for = [Bind::Number(millis(self.lease_duration))];
        Closing {
            keep: self.history_inserts(delivered),
            settle: statement(&sql.settle_claimed, RowBatch::keys(delivered.iter().copied()), &[]),
            lease_in_flight: statement(&sql.lease_in_flight, RowBatch::held(held.into_iter()), &held_for),
            release: statement(&sql.release, RowBatch::held(unused.into_iter()), &[]),
        }
    }

    fn history_inserts(&self, delivered: &[RowKey]) -> Vec<Statement<Sqlite>> {
        let Some(keep) = self.keep.filter(|_| !delivered.is_empty()) else { return Vec::new() };
        let kept: Vec<HistoryRow> = delivered.iter().map(|&key| HistoryRow { key, keep }).collect();
        history_inserts(&self.sql, &self.sql.history.settle_claimed, &kept)
    }
}

/// The writes of a close that has any.
struct Closing {
    keep: Vec<Statement<Sqlite>>,
    settle: Option<Statement<Sqlite>>,
    lease_in_flight: Option<Statement<Sqlite>>,
    release: Option<Statement<Sqlite>>,
}

impl Closing {
    async fn run<S: Session<Sqlite>>(self, conn: &mut PoolConnection<Sqlite, S>) -> Result<Closed, StoreError> {
        let mut closed = Closed::default();
        conn.begin(BEGIN.into()).await?;
        for keep in self.keep {
            conn.execute(keep).await?;
        }
        if let Some(settle) = self.settle {
            closed.settled = conn.load::<Read<RowKey>>(settle).await?.into_iter().map(|row| row.0).collect();
        }
        if let Some(hold) = self.lease_in_flight {
            closed.held = conn.load::<Read<Held>>(hold).await?.into_iter().map(|row| row.0).collect();
        }
        if let Some(release) = self.release {
            conn.load::<Read<()>>(release).await?;
        }
        conn.commit().await?;
        Ok(closed)
    }
}

impl<P: ConnectionPool<Sqlite>> fmt::Debug for LeasedClaim<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedClaim").field("leased", &self.leased.len()).finish_non_exhaustive()
    }
}
