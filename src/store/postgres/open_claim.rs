//! How a claim runs. Its SQL is in `store/sql/statements/claims.rs`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::data_types::PgTimestamp;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::PgBind;
use super::claim_rows::{ClaimRow, ClaimedRow, PayloadRow};
use super::ctid::Ctid;
use crate::clock::millis;
use crate::limits::CLAIM_IDLE_GRACE;
use crate::store::poll::watermark;
use crate::store::pool::{ConnectionPool, PoolConnection, Session, within};
use crate::store::sql::binds::Binds;
use crate::store::sql::database::append_binds;
use crate::store::sql::dialect::{Bind, Statement, micros};
use crate::store::sql::row_batch::RowBatch;
use crate::store::sql::rows::Read;
use crate::store::sql::statements::Sql;
use crate::store::{Claim, ClaimHandle, ClaimMode, ClaimSpec, Closed, DueWatermark, Held, Keep, RowKey, StoreError};

/// BEGIN with the claim's settings, in one round trip.
///
/// Its commit does not wait for the disk: if a crash of the database undoes it, rows are sent twice, and nothing else happens. Its
/// plans fit the table's current size. A plan cached while the table was empty reads all of a backlog for each claim. So does a
/// bitmap scan, which PostgreSQL may choose if it cannot know how many rows follow the first due one.
fn begin(spec: &ClaimSpec, settings: &str) -> Arc<str> {
    let idle_ms = millis(spec.lock_duration + CLAIM_IDLE_GRACE);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; \
         SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = off; \
         SET LOCAL enable_bitmapscan = off"
    )
    .into()
}

impl<P: ConnectionPool<Pg>> PostgresStore<P> {
    pub(super) async fn open_claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mut conn = self.executor.connections.acquire().await?;
        conn.begin(begin(spec, &self.local_settings())).await?;
        let (watermark, mut claimed) = self.read_claim(&mut conn, spec).await?;
        // Sorted already, unless a row's due_at changed while the statement waited for its page.
        claimed.sort_by_key(|claimed| (claimed.due_at, claimed.row.key.id));
        let fit = rows_within_bytes(&claimed, spec.bytes_max);
        let found_all = claimed.len() < spec.rows_max && fit == claimed.len();
        claimed.truncate(fit);
        self.read_large_payloads(&mut conn, &mut claimed).await?;
        // Rows of the same instant may follow.
        let reached = claimed.last().map(|last| DueWatermark(last.due_at.saturating_sub(1)));
        let places = claimed.iter().map(|claimed| (claimed.row.key, claimed.ctid)).collect();
        Ok(Claim {
            rows: claimed.into_iter().map(|claimed| claimed.row.decode(&spec.topic)).collect(),
            mode: ClaimMode::Locked,
            watermark,
            reached,
            found_all,
            handle: Box::new(OpenClaim {
                conn,
                places,
                sql: Arc::clone(&self.sql),
                keep: spec.keep,
                lease_duration: spec.lease_duration,
                deadline: self.executor.connections.deadline(),
            }),
        })
    }

    /// Locks and reads the due rows, and computes the watermark.
    async fn read_claim(
        &self,
        conn: &mut PoolConnection<Pg, P::Session>,
        spec: &ClaimSpec,
    ) -> Result<(Option<DueWatermark>, Vec<ClaimedRow>), StoreError> {
        // '-infinity' is an instant like others, which somebody may have set by hand. The value above it is no valid instant.
        let from = spec.after.map_or(i64::MIN, DueWatermark::next);
        let binds = [
            Bind::text(&spec.topic),
            PgBind::Instant(PgTimestamp(from)).into(),
            Bind::limit(spec.rows_max),
            Bind::limit(spec.bytes_max / spec.rows_max.max(1)),
        ];
        let read: Vec<ClaimRow> = conn.load(Statement::new(&self.sql.claims.claim, binds)).await?;
        let (mut mark, mut claimed) = (None, Vec::with_capacity(read.len()));
        for row in read {
            match row {
                ClaimRow::Range { read_at, first_due_at } => {
                    let slack = micros(spec.watermark_slack_duration);
                    mark = Some(watermark(read_at, first_due_at, slack));
                }
                ClaimRow::Claimed(row) => claimed.push(row),
            }
        }
        Ok((mark, claimed))
    }

    /// Reads the payloads that the claim statement left out.
    async fn read_large_payloads(
        &self,
        conn: &mut PoolConnection<Pg, P::Session>,
        claimed: &mut Vec<ClaimedRow>,
    ) -> Result<(), StoreError> {
        let apart = claimed.iter().filter(|row| row.large_payload_bytes.is_some());
        let ids: Vec<i64> = apart.map(|row| row.row.key.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let payloads = Statement::new(&self.sql.claims.payloads, [PgBind::Numbers(ids).into()]);
        let read: Vec<PayloadRow> = conn.load(payloads).await?;
        let mut payloads: HashMap<RowKey, _> = read.into_iter().map(|row| (row.key, row.payload)).collect();
        // The rows are locked, so each exists. A missing one must not be sent as a tombstone.
        claimed.retain_mut(|row| match (row.large_payload_bytes, payloads.remove(&row.row.key).flatten()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(payload)) => {
                if let Ok(body) = &mut row.row.body {
                    body.payload = Some(payload);
                }
                true
            }
        });
        Ok(())
    }
}

/// How many of the first rows fit the byte limit: at least one.
fn rows_within_bytes(claimed: &[ClaimedRow], bytes_max: usize) -> usize {
    let mut bytes = 0_usize;
    let beyond = claimed.iter().position(|row| {
        bytes = bytes.saturating_add(row.payload_bytes());
        bytes > bytes_max
    });
    beyond.map_or(claimed.len(), |beyond| beyond.max(1))
}

/// A claim whose transaction is open.
struct OpenClaim<S: Session<Pg>> {
    conn: PoolConnection<Pg, S>,
    /// The claimed rows and their positions.
    places: HashMap<RowKey, Ctid>,
    sql: Arc<Sql>,
    keep: Option<Keep>,
    lease_duration: Duration,
    deadline: Duration,
}

#[async_trait]
impl<S: Session<Pg>> ClaimHandle for OpenClaim<S> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        within(self.deadline, self.commit(delivered, held)).await
    }
}

impl<S: Session<Pg>> OpenClaim<S> {
    // An aborted transaction answers COMMIT with ROLLBACK, and no error. That cannot happen here: any statement's error ends the
    // claim first.
    async fn commit(mut self, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let mut closed = Closed::default();
        let (settled, places): (Vec<RowKey>, Vec<Ctid>) = delivered.iter().filter_map(|key| self.take(*key)).unzip();
        if !settled.is_empty() {
            let gone = self.conn.execute(self.settle(&settled, places)).await?;
            closed.settled = match gone == settled.len() {
                true => settled,
                false => self.deleted_rows(settled).await?,
            };
        }
        if !held.is_empty() {
            let hold = &self.sql.claims.lease_in_flight;
            let batch = Pg::row_batch(&RowBatch::keys(held.iter().copied()), hold.first());
            let binds = append_binds(batch, &[Bind::Number(millis(self.lease_duration))]);
            let leased: Vec<Read<Held>> = self.conn.load(Statement::new(hold, binds)).await?;
            closed.held = leased.into_iter().map(|row| row.0).collect();
        }
        self.conn.commit().await?;
        self.conn.release();
        Ok(closed)
    }

    fn settle(&self, settled: &[RowKey], places: Vec<Ctid>) -> Statement<Pg> {
        let messages = PgBind::Uuids(settled.iter().map(|row| *row.message_id.as_uuid()).collect());
        let binds = vec![PgBind::Ctids(places).into(), messages.into()];
        match self.keep {
            None => Statement::new(&self.sql.claims.settle_claimed, binds),
            Some(Keep { days, awaits_processing }) => {
                let days = i32::try_from(days).unwrap_or(i32::MAX);
                let keep = [Bind::Number(days.into()), Bind::Number(awaits_processing.into())];
                Statement::new(&self.sql.history.settle_claimed, append_binds(binds, &keep))
            }
        }
    }

    /// The rows that the DELETE removed, if not all: a trigger can keep a row.
    async fn deleted_rows(&mut self, deleted: Vec<RowKey>) -> Result<Vec<RowKey>, StoreError> {
        let ids = PgBind::Numbers(deleted.iter().map(|row| row.id).collect());
        let remaining = Statement::new(&self.sql.live.remaining, [ids.into()]);
        let found: Vec<Read<RowKey>> = self.conn.load(remaining).await?;
        let remaining: HashSet<RowKey> = found.into_iter().map(|row| row.0).collect();
        Ok(deleted.into_iter().filter(|key| !remaining.contains(key)).collect())
    }

    /// Takes a row of this claim, once; this claim must not remove any other.
    fn take(&mut self, key: RowKey) -> Option<(RowKey, Ctid)> {
        self.places.remove_entry(&key)
    }
}

impl<S: Session<Pg>> fmt::Debug for OpenClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClaim").field("conn", &self.conn).finish_non_exhaustive()
    }
}
