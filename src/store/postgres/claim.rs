use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::data_types::PgTimestamp;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::Bind;
use super::ctid::Ctid;
use super::history::keep;
use super::rows::{ClaimRow, ClaimedRow, HeldRow, KeyRow, PayloadRow};
use crate::clock::millis;
use crate::limits::CLAIM_SILENCE;
use crate::store::look::watermark;
use crate::store::session::{Lease, Session, Sessions, within};
use crate::store::statement::{Statement, limit, micros};
use crate::store::{Claim, ClaimBatch, ClaimSpec, Closed, DueMark, Keep, RowKey, StoreError, Term};

/// BEGIN with the claim's settings, in one round trip.
///
/// Its commit does not wait for the disk: what a crash of the database takes back of it is a duplicate after that crash
/// and nothing else. And its plans are made for what the table is now: one that was cached while it was empty reads all
/// of a backlog for each claim, and so does a bitmap, which PostgreSQL may take where it cannot know how much lies behind the
/// first row that is due.
fn begin(spec: &ClaimSpec, settings: &str) -> Arc<str> {
    let idle_ms = millis(spec.term_duration + CLAIM_SILENCE);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {settings}; SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; \
         SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = off; \
         SET LOCAL enable_bitmapscan = off"
    )
    .into()
}

impl<P: Sessions<Pg>> PostgresStore<P> {
    pub(super) async fn open_claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mut lease = self.connections.lease().await?;
        lease.begin(begin(spec, &self.local_settings())).await?;
        let (watermark, mut claimed) = self.read_claim(&mut lease, spec).await?;
        // Sorted already, unless a row's due_at was moved while the statement waited for its page.
        claimed.sort_by_key(|claimed| (claimed.due_at.0, claimed.row.key.id));
        let fit = fitting(&claimed, spec.bytes_max);
        let found_all = claimed.len() < spec.rows_max && fit == claimed.len();
        claimed.truncate(fit);
        self.read_apart(&mut lease, &mut claimed).await?;
        // Rows of the same instant may follow.
        let reached = claimed.last().map(|last| DueMark(last.due_at.0.saturating_sub(1)));
        let places = claimed.iter().map(|claimed| (claimed.row.key, claimed.ctid)).collect();
        Ok(Claim {
            rows: claimed.into_iter().map(|claimed| claimed.row.decode(&spec.topic)).collect(),
            term: Term::Locked,
            watermark,
            reached,
            found_all,
            batch: Box::new(OpenClaim {
                lease,
                places,
                settle: Arc::clone(match spec.keep {
                    Some(_) => &self.history_texts.settle_claimed,
                    None => &self.texts.settle_claimed,
                }),
                keep: spec.keep,
                hold: Arc::clone(&self.texts.hold),
                remaining: Arc::clone(&self.texts.remaining),
                lease_duration: spec.lease_duration,
                deadline: self.connections.deadline(),
            }),
        })
    }

    /// What is due, locked, and the watermark.
    async fn read_claim(
        &self,
        lease: &mut Lease<Pg, P::Session>,
        spec: &ClaimSpec,
    ) -> Result<(Option<DueMark>, Vec<ClaimedRow>), StoreError> {
        // '-infinity' is an instant like others, which somebody may have set a row to; below it there is none, and right above it none either.
        let from = spec.after.map_or(i64::MIN, DueMark::next);
        let binds = [
            Bind::Text(Arc::clone(&spec.topic)),
            Bind::Instant(PgTimestamp(from)),
            Bind::BigInt(limit(spec.rows_max)),
            Bind::BigInt(limit(spec.bytes_max / spec.rows_max.max(1))),
        ];
        let read: Vec<ClaimRow> = lease.load(Statement::new(&self.texts.claim, binds)).await?;
        let (mut mark, mut claimed) = (None, Vec::with_capacity(read.len()));
        for row in read {
            match row {
                ClaimRow::Range { read_at, first_due_at } => {
                    let slack = micros(spec.watermark_slack_duration);
                    mark = Some(watermark(read_at.0, first_due_at.map(|first| first.0), slack));
                }
                ClaimRow::Claimed(row) => claimed.push(row),
            }
        }
        Ok((mark, claimed))
    }

    /// Reads the payloads that did not come along.
    async fn read_apart(
        &self,
        lease: &mut Lease<Pg, P::Session>,
        claimed: &mut Vec<ClaimedRow>,
    ) -> Result<(), StoreError> {
        let apart = claimed.iter().filter(|row| row.bytes_apart.is_some());
        let ids: Vec<i64> = apart.map(|row| row.row.key.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let read: Vec<PayloadRow> = lease.load(Statement::new(&self.texts.payloads, [Bind::BigInts(ids)])).await?;
        let mut payloads: HashMap<RowKey, _> = read.into_iter().map(|row| (row.key, row.payload)).collect();
        // Locked, so that each is there. One that were not must not go out as a tombstone.
        claimed.retain_mut(|row| match (row.bytes_apart, payloads.remove(&row.row.key).flatten()) {
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

/// How many of the first rows are within the bytes: one at least.
fn fitting(claimed: &[ClaimedRow], bytes_max: usize) -> usize {
    let mut bytes = 0_usize;
    let beyond = claimed.iter().position(|row| {
        bytes = bytes.saturating_add(row.payload_bytes());
        bytes > bytes_max
    });
    beyond.map_or(claimed.len(), |beyond| beyond.max(1))
}

/// A claim whose transaction is open.
struct OpenClaim<S: Session<Pg>> {
    lease: Lease<Pg, S>,
    /// The claimed rows, and where each is.
    places: HashMap<RowKey, Ctid>,
    settle: Arc<str>,
    keep: Option<Keep>,
    hold: Arc<str>,
    remaining: Arc<str>,
    lease_duration: Duration,
    deadline: Duration,
}

#[async_trait]
impl<S: Session<Pg>> ClaimBatch for OpenClaim<S> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        within(self.deadline, self.commit(delivered, held)).await
    }
}

impl<S: Session<Pg>> OpenClaim<S> {
    // An aborted transaction answers ROLLBACK to COMMIT, and no error. It cannot come to that here: each statement's
    // error ends the claim before.
    async fn commit(mut self, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let mut closed = Closed::default();
        let (settled, places): (Vec<RowKey>, Vec<Ctid>) = delivered.iter().filter_map(|key| self.take(*key)).unzip();
        if !settled.is_empty() {
            let [ids, message_ids] = Bind::keys(settled.iter().copied());
            let keep = self.keep.map(keep).into_iter().flatten();
            let binds: Vec<Bind> = [Bind::Ctids(places), message_ids].into_iter().chain(keep).collect();
            let gone = self.lease.execute(Statement::new(&self.settle, binds)).await?;
            closed.settled = match gone == settled.len() {
                true => settled,
                false => self.without_remaining(settled, ids).await?,
            };
        }
        if !held.is_empty() {
            let [ids, message_ids] = Bind::keys(held.iter().copied());
            let binds = [ids, message_ids, Bind::BigInt(millis(self.lease_duration))];
            let leased: Vec<HeldRow> = self.lease.load(Statement::new(&self.hold, binds)).await?;
            closed.held = leased.into_iter().map(|row| row.0).collect();
        }
        self.lease.commit().await?;
        self.lease.give_back();
        Ok(closed)
    }

    /// Those that the DELETE removed, where it removed not all: a trigger can keep a row.
    async fn without_remaining(&mut self, deleted: Vec<RowKey>, ids: Bind) -> Result<Vec<RowKey>, StoreError> {
        let found: Vec<KeyRow> = self.lease.load(Statement::new(&self.remaining, [ids])).await?;
        let remaining: HashSet<RowKey> = found.into_iter().map(|row| row.0).collect();
        Ok(deleted.into_iter().filter(|key| !remaining.contains(key)).collect())
    }

    /// A row of this claim, once; others are not this claim's to remove.
    fn take(&mut self, key: RowKey) -> Option<(RowKey, Ctid)> {
        self.places.remove_entry(&key)
    }
}

impl<S: Session<Pg>> fmt::Debug for OpenClaim<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClaim").field("lease", &self.lease).finish_non_exhaustive()
    }
}
