use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::data_types::PgTimestamp;
use diesel::pg::Pg;

use super::PostgresStore;
use super::bind::Own;
use super::claim_rows::{ClaimRow, ClaimedRow, PayloadRow};
use super::ctid::Ctid;
use crate::clock::millis;
use crate::limits::CLAIM_SILENCE;
use crate::store::look::watermark;
use crate::store::session::{Lease, Session, Sessions, within};
use crate::store::sql::binds::Binds;
use crate::store::sql::flows::with;
use crate::store::sql::group::Group;
use crate::store::sql::rows::Read;
use crate::store::sql::statements::Texts;
use crate::store::statement::{Bind, Statement, micros};
use crate::store::{Claim, ClaimBatch, ClaimSpec, Closed, DueMark, Held, Keep, RowKey, StoreError, Term};

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
        let mut lease = self.calls.connections.lease().await?;
        lease.begin(begin(spec, &self.local_settings())).await?;
        let (watermark, mut claimed) = self.read_claim(&mut lease, spec).await?;
        // Sorted already, unless a row's due_at was moved while the statement waited for its page.
        claimed.sort_by_key(|claimed| (claimed.due_at, claimed.row.key.id));
        let fit = fitting(&claimed, spec.bytes_max);
        let found_all = claimed.len() < spec.rows_max && fit == claimed.len();
        claimed.truncate(fit);
        self.read_apart(&mut lease, &mut claimed).await?;
        // Rows of the same instant may follow.
        let reached = claimed.last().map(|last| DueMark(last.due_at.saturating_sub(1)));
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
                texts: Arc::clone(&self.texts),
                keep: spec.keep,
                lease_duration: spec.lease_duration,
                deadline: self.calls.connections.deadline(),
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
            Bind::text(&spec.topic),
            Own::Instant(PgTimestamp(from)).into(),
            Bind::limit(spec.rows_max),
            Bind::limit(spec.bytes_max / spec.rows_max.max(1)),
        ];
        let read: Vec<ClaimRow> = lease.load(Statement::new(&self.texts.claims.claim, binds)).await?;
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
        let payloads = Statement::new(&self.texts.claims.payloads, [Own::Numbers(ids).into()]);
        let read: Vec<PayloadRow> = lease.load(payloads).await?;
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
    texts: Arc<Texts>,
    keep: Option<Keep>,
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
            let gone = self.lease.execute(self.settle(&settled, places)).await?;
            closed.settled = match gone == settled.len() {
                true => settled,
                false => self.without_remaining(settled).await?,
            };
        }
        if !held.is_empty() {
            let hold = &self.texts.claims.hold;
            let group = Pg::group(&Group::keys(held.iter().copied()), hold.first());
            let binds = with(group, &[Bind::Number(millis(self.lease_duration))]);
            let leased: Vec<Read<Held>> = self.lease.load(Statement::new(hold, binds)).await?;
            closed.held = leased.into_iter().map(|row| row.0).collect();
        }
        self.lease.commit().await?;
        self.lease.give_back();
        Ok(closed)
    }

    fn settle(&self, settled: &[RowKey], places: Vec<Ctid>) -> Statement<Pg> {
        let messages = Own::Uuids(settled.iter().map(|row| *row.message_id.as_uuid()).collect());
        let binds = vec![Own::Ctids(places).into(), messages.into()];
        match self.keep {
            None => Statement::new(&self.texts.claims.settle_claimed, binds),
            Some(Keep { days, awaits_processing }) => {
                let days = i32::try_from(days).unwrap_or(i32::MAX);
                let keep = [Bind::Number(days.into()), Bind::Number(awaits_processing.into())];
                Statement::new(&self.texts.kept.settle_claimed, with(binds, &keep))
            }
        }
    }

    /// Those that the DELETE removed, where it removed not all: a trigger can keep a row.
    async fn without_remaining(&mut self, deleted: Vec<RowKey>) -> Result<Vec<RowKey>, StoreError> {
        let ids = Own::Numbers(deleted.iter().map(|row| row.id).collect());
        let remaining = Statement::new(&self.texts.live.remaining, [ids.into()]);
        let found: Vec<Read<RowKey>> = self.lease.load(remaining).await?;
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
