use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::mysql::Mysql;

use super::MysqlStore;
use super::flows::keeping;
use super::rows::{ClaimedRow, PayloadRow, WatermarkRow};
use super::transaction::{COMMIT, begin};
use crate::limits::CLAIM_SILENCE;
use crate::store::decode::{RawRow, next_epoch};
use crate::store::look::watermark;
use crate::store::session::{Lease, Session, Sessions, within};
use crate::store::sql::binds::Binds;
use crate::store::sql::statements::Texts;
use crate::store::statement::{Bind, BindOf, Statement, micros};
use crate::store::{Claim, ClaimBatch, ClaimSpec, Closed, DueMark, Held, Keep, Kept, RowKey, StoreError, Term};

impl<P: Sessions<Mysql>> MysqlStore<P> {
    pub(super) async fn open_claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mut lease = self.calls.connections.lease().await?;
        lease.begin(begin(spec.term_duration + CLAIM_SILENCE)).await?;
        let binds = [Bind::text(&spec.topic), from(spec), Bind::limit(spec.rows_max)];
        let locked: Vec<ClaimedRow> = lease.load(Statement::new(&self.texts.claims.claim, binds)).await?;
        let found = locked.len();
        let mut rows = cut(locked, spec.bytes_max);
        let found_all = found < spec.rows_max && rows.len() == found;
        self.read_payloads(&mut lease, &mut rows).await?;
        let watermark = self.watermark(&mut lease, spec).await?;
        Ok(Claim {
            term: Term::Locked,
            watermark: Some(watermark),
            reached: None,
            found_all,
            batch: Box::new(OpenClaim {
                lease,
                epochs: rows.iter().map(|row| (row.key, row.epoch)).collect(),
                keep: spec.keep,
                texts: Arc::clone(&self.texts),
                lease_duration: spec.lease_duration,
                deadline: self.calls.connections.deadline(),
            }),
            rows: rows.into_iter().map(|row| row.decode(&spec.topic)).collect(),
        })
    }

    async fn read_payloads(&self, lease: &mut Lease<Mysql, P::Session>, rows: &mut [RawRow]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let ids = ids(rows.iter().map(|row| row.key));
        let read: Vec<PayloadRow> = lease.load(Statement::new(&self.texts.claims.payloads, [ids])).await?;
        let mut payloads: HashMap<i64, _> = read.into_iter().map(|row| (row.id, row.payload)).collect();
        for row in rows {
            if let Ok(body) = &mut row.body {
                body.payload = payloads.remove(&row.key.id).flatten();
            }
        }
        Ok(())
    }

    async fn watermark(&self, lease: &mut Lease<Mysql, P::Session>, spec: &ClaimSpec) -> Result<DueMark, StoreError> {
        let range = [Bind::text(&spec.topic), from(spec)];
        let read: Vec<WatermarkRow> = lease.load(Statement::new(&self.texts.claims.watermark, range)).await?;
        let slack = micros(spec.watermark_slack_duration);
        let marks = read.iter().map(|row| watermark(row.read_at, row.first_due_at, slack));
        Ok(marks.min().unwrap_or(DueMark(i64::MIN)))
    }
}

/// The earliest instant of a claim, in microseconds from 1970.
fn from(spec: &ClaimSpec) -> BindOf<Mysql> {
    Bind::Number(spec.after.map_or(i64::MIN, DueMark::next))
}

/// Rows in the order of their ids.
fn ids(rows: impl Iterator<Item = RowKey>) -> BindOf<Mysql> {
    let mut ids: Vec<i64> = rows.map(|row| row.id).collect();
    ids.sort_unstable();
    Mysql::rows(&ids)
}

/// The first rows, as many as are within the bytes, and one at least.
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
    lease: Lease<Mysql, S>,
    /// The claimed rows: locked, so that they are still there, and under these epochs.
    epochs: HashMap<RowKey, i32>,
    keep: Option<Keep>,
    texts: Arc<Texts>,
    lease_duration: Duration,
    deadline: Duration,
}

#[async_trait]
impl<S: Session<Mysql>> ClaimBatch for OpenClaim<S> {
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
            self.lease.execute(Statement::new(&self.texts.claims.settle_claimed, [ids])).await?;
        }
        if !held.is_empty() {
            let binds = [ids(held.iter().map(|row| row.key)), Bind::Number(micros(self.lease_duration))];
            self.lease.execute(Statement::new(&self.texts.claims.hold, binds)).await?;
        }
        self.lease.commit_by(COMMIT.into()).await?;
        self.lease.give_back();
        let held = held.into_iter().map(|row| Held { epoch: next_epoch(row.epoch), ..row }).collect();
        Ok(Closed { settled, held })
    }

    async fn keep(&mut self, settled: &[RowKey]) -> Result<(), StoreError> {
        let Some(keep) = self.keep else { return Ok(()) };
        let kept = settled.iter().map(|&key| Kept { key, keep }).collect();
        for write in keeping(&self.texts, (&self.texts.kept.settle_claimed, 0), kept) {
            self.lease.execute(write).await?;
        }
        Ok(())
    }

    /// A row of this claim, once; others are not this claim's to write.
    fn take(&mut self, key: RowKey) -> Option<Held> {
        self.epochs.remove(&key).map(|epoch| Held { key, epoch })
    }
}

impl<S: Session<Mysql>> fmt::Debug for OpenClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClaim").field("rows", &self.epochs.len()).finish_non_exhaustive()
    }
}
