//! How a claim runs. Its SQL is in `store/sql/statements/claims.rs`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::mysql::Mysql;

use super::MysqlStore;
use super::database::history_inserts;
use super::rows::{ClaimedRow, PayloadRow, WatermarkRow};
use super::transaction::{COMMIT, begin};
use crate::limits::CLAIM_IDLE_GRACE;
use crate::store::decode::{RawRow, next_epoch};
use crate::store::poll::watermark;
use crate::store::pool::{ConnectionPool, PoolConnection, Session, within};
use crate::store::sql::binds::Binds;
use crate::store::sql::dialect::{Bind, BindOf, Statement, micros};
use crate::store::sql::statements::Sql;
use crate::store::{
    Claim, ClaimHandle, ClaimMode, ClaimSpec, Closed, DueWatermark, Held, HistoryRow, Keep, RowKey, StoreError,
};

impl<P: ConnectionPool<Mysql>> MysqlStore<P> {
    pub(super) async fn open_claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mut conn = self.executor.connections.acquire().await?;
        conn.begin(begin(spec.lock_duration + CLAIM_IDLE_GRACE)).await?;
        let binds = [Bind::text(&spec.topic), from(spec), Bind::limit(spec.rows_max)];
        let locked: Vec<ClaimedRow> = conn.load(Statement::new(&self.sql.claims.claim, binds)).await?;
        let found = locked.len();
        let mut rows = cut(locked, spec.bytes_max);
        let found_all = found < spec.rows_max && rows.len() == found;
        self.read_payloads(&mut conn, &mut rows).await?;
        let watermark = self.watermark(&mut conn, spec).await?;
        Ok(Claim {
            mode: ClaimMode::Locked,
            watermark: Some(watermark),
            reached: None,
            found_all,
            handle: Box::new(OpenClaim {
                conn,
                epochs: rows.iter().map(|row| (row.key, row.epoch)).collect(),
                keep: spec.keep,
                sql: Arc::clone(&self.sql),
                lease_duration: spec.lease_duration,
                deadline: self.executor.connections.deadline(),
            }),
            rows: rows.into_iter().map(|row| row.decode(&spec.topic)).collect(),
        })
    }

    async fn read_payloads(
        &self,
        conn: &mut PoolConnection<Mysql, P::Session>,
        rows: &mut [RawRow],
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let ids = ids(rows.iter().map(|row| row.key));
        let read: Vec<PayloadRow> = conn.load(Statement::new(&self.sql.claims.payloads, [ids])).await?;
        let mut payloads: HashMap<i64, _> = read.into_iter().map(|row| (row.id, row.payload)).collect();
        for row in rows {
            if let Ok(body) = &mut row.body {
                body.payload = payloads.remove(&row.key.id).flatten();
            }
        }
        Ok(())
    }

    async fn watermark(
        &self,
        conn: &mut PoolConnection<Mysql, P::Session>,
        spec: &ClaimSpec,
    ) -> Result<DueWatermark, StoreError> {
        let range = [Bind::text(&spec.topic), from(spec)];
        let read: Vec<WatermarkRow> = conn.load(Statement::new(&self.sql.claims.watermark, range)).await?;
        let slack = micros(spec.watermark_slack_duration);
        let marks = read.iter().map(|row| watermark(row.read_at, row.first_due_at, slack));
        Ok(marks.min().unwrap_or(DueWatermark(i64::MIN)))
    }
}

/// The earliest instant of a claim, in microseconds from 1970.
fn from(spec: &ClaimSpec) -> BindOf<Mysql> {
    Bind::Number(spec.after.map_or(i64::MIN, DueWatermark::next))
}

/// The ids of rows, sorted.
fn ids(rows: impl Iterator<Item = RowKey>) -> BindOf<Mysql> {
    let mut ids: Vec<i64> = rows.map(|row| row.id).collect();
    ids.sort_unstable();
    Mysql::rows(&ids)
}

/// The first rows that fit the byte limit, and at least one.
fn cut(locked: Vec<ClaimedRow>, bytes_max: usize) -> Vec<RawRow> {
    let mut bytes = 0_usize;
    let mut rows = Vec::with_capacity(locked.len());
    for ClaimedRow { row, payload_bytes } in locked {
        let more = payload_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        bytes = bytes.saturating_add(more);
        if bytes > bytes_max && !rows.is_empty() {
            break;
        }
        rows.push(row);
    }
    rows
}

/// A claim whose transaction is open.
struct OpenClaim<S: Session<Mysql>> {
    conn: PoolConnection<Mysql, S>,
    /// The claimed rows and their epochs. They are locked, so they still exist.
    epochs: HashMap<RowKey, i32>,
    keep: Option<Keep>,
    sql: Arc<Sql>,
    lease_duration: Duration,
    deadline: Duration,
}

#[async_trait]
impl<S: Session<Mysql>> ClaimHandle for OpenClaim<S> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        within(self.deadline, self.commit(delivered, held)).await
    }
}

impl<S: Session<Mysql>> OpenClaim<S> {
    async fn commit(mut self, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let settled: Vec<RowKey> = delivered.iter().filter_map(|key| self.take(*key)).map(|row| row.key).collect();
        let held: Vec<Held> = held.iter().filter_map(|key| self.take(*key)).collect();
        if !settled.is_empty() {
            self.keep(&settled).await?;
            let ids = ids(settled.iter().copied());
            self.conn.execute(Statement::new(&self.sql.claims.settle_claimed, [ids])).await?;
        }
        if !held.is_empty() {
            let binds = [ids(held.iter().map(|row| row.key)), Bind::Number(micros(self.lease_duration))];
            self.conn.execute(Statement::new(&self.sql.claims.lease_in_flight, binds)).await?;
        }
        self.conn.commit_by(COMMIT.into()).await?;
        self.conn.release();
        let held = held.into_iter().map(|row| Held { epoch: next_epoch(row.epoch), ..row }).collect();
        Ok(Closed { settled, held })
    }

    async fn keep(&mut self, settled: &[RowKey]) -> Result<(), StoreError> {
        let Some(keep) = self.keep else { return Ok(()) };
        let history_rows = settled.iter().map(|&key| HistoryRow { key, keep }).collect();
        for write in history_inserts(&self.sql, (&self.sql.history.settle_claimed, 0), history_rows) {
            self.conn.execute(write).await?;
        }
        Ok(())
    }

    /// Takes a row of this claim, once; this claim must not write any other.
    fn take(&mut self, key: RowKey) -> Option<Held> {
        self.epochs.remove(&key).map(|epoch| Held { key, epoch })
    }
}

impl<S: Session<Mysql>> fmt::Debug for OpenClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClaim").field("rows", &self.epochs.len()).finish_non_exhaustive()
    }
}
