use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::bind::Bind;
use super::call::{BEGIN, Caller};
use super::history_texts::HistoryTexts;
use super::keeping::keeping;
use super::rows::{DueMessage, HeldRow, KeyRow};
use super::texts::Texts;
use crate::clock::millis;
use crate::store::decode::{RawRow, next_epoch};
use crate::store::session::{Lease, Session, Sessions};
use crate::store::statement::{Statement, limit};
use crate::store::{Claim, ClaimBatch, ClaimSpec, Closed, DueMark, Held, Keep, Kept, RowKey, StoreError, Term};

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    pub(super) async fn take(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let taking = Taking { texts: Arc::clone(&self.texts), spec: spec.clone() };
        let (watermark, rows) = self.caller().run(|lease| Box::pin(taking.run(lease))).await?;
        let leased = rows.iter().map(|row| Held { key: row.key, epoch: row.epoch }).collect();
        Ok(Claim {
            rows: rows.into_iter().map(|row| row.decode(&spec.topic)).collect(),
            term: Term::Leased,
            watermark,
            // Claimed rows leave the range with their lease, and the index with it.
            reached: None,
            found_all: watermark.is_some(),
            batch: Box::new(LeasedBatch {
                caller: self.caller(),
                texts: Arc::clone(&self.texts),
                leased,
                lease_duration: spec.lease_duration,
                keep: spec.keep.map(|keep| (keep, Arc::clone(&self.history_texts))),
            }),
        })
    }
}

/// A claim on its way.
struct Taking {
    texts: Arc<Texts>,
    spec: ClaimSpec,
}

impl Taking {
    async fn run<S: Session<Sqlite>>(
        self,
        lease: &mut Lease<Sqlite, S>,
    ) -> Result<(Option<DueMark>, Vec<RawRow>), StoreError> {
        let Self { texts, spec } = self;
        lease.begin(BEGIN.into()).await?;
        let binds = [
            Bind::Text(Arc::clone(&spec.topic)),
            Bind::BigInt(spec.after.map_or(i64::MIN, DueMark::next)),
            Bind::BigInt(limit(spec.rows_max)),
            Bind::BigInt(limit(spec.bytes_max)),
        ];
        let read: Vec<DueMessage> = lease.load(Statement::new(&texts.select_due, binds)).await?;
        let (watermark, rows) = sort_out(read, &spec);
        if !rows.is_empty() {
            let ids = Bind::json(rows.iter().map(|row| row.key.id.into()));
            lease.execute(Statement::new(&texts.lease, [ids, Bind::BigInt(millis(spec.lease_duration))])).await?;
        }
        lease.commit().await?;
        Ok((watermark, rows))
    }
}

/// The rows as they will be leased, oldest first, and where the next claim may begin: nobody else can write while this
/// one reads, so below its moment nothing is left but what is still to commit.
fn sort_out(read: Vec<DueMessage>, spec: &ClaimSpec) -> (Option<DueMark>, Vec<RawRow>) {
    let slack = millis(spec.watermark_slack_duration);
    let whole = read.first().map(|row| (row.read_at, usize::try_from(row.found).unwrap_or(usize::MAX)));
    let mut due: Vec<(i64, RawRow)> = read.into_iter().filter_map(|row| row.row).collect();
    due.sort_by_key(|(due_at, row)| (*due_at, row.key.id));
    let rows: Vec<RawRow> = due.into_iter().map(|(_, row)| RawRow { epoch: next_epoch(row.epoch), ..row }).collect();
    let is_under_full = |found| found < spec.rows_max && found == rows.len();
    let watermark = whole.filter(|&(_, found)| is_under_full(found)).map(|(read_at, _)| DueMark(read_at - slack));
    (watermark, rows)
}

/// A claim whose rows are leased.
struct LeasedBatch<P: Sessions<Sqlite>> {
    caller: Caller<P>,
    texts: Arc<Texts>,
    leased: Vec<Held>,
    lease_duration: Duration,
    keep: Option<(Keep, Arc<HistoryTexts>)>,
}

#[async_trait]
impl<P: Sessions<Sqlite>> ClaimBatch for LeasedBatch<P> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let closing = self.closing(delivered, held);
        if closing.settle.is_none() && closing.hold.is_none() && closing.release.is_none() {
            return Ok(Closed::default());
        }
        self.caller.run(|lease| Box::pin(closing.run(lease))).await
    }
}

impl<P: Sessions<Sqlite>> LeasedBatch<P> {
    fn closing(&self, delivered: &[RowKey], held: &[RowKey]) -> Closing {
        let (done, kept): (HashSet<_>, HashSet<_>) = (delivered.iter().collect(), held.iter().collect());
        let open = self.leased.iter().filter(|row| !done.contains(&row.key));
        let (held, unused): (Vec<Held>, Vec<Held>) = open.partition(|row| kept.contains(&row.key));
        let group = |rows: &[Held]| Bind::held(rows, |row| *row, |_| Vec::new());
        let Texts { settle, hold, release, .. } = &*self.texts;
        Closing {
            keep: self.keeping(delivered),
            settle: (!delivered.is_empty()).then(|| Statement::new(settle, Bind::keys(delivered))),
            hold: (!held.is_empty()).then(|| {
                let [keys, message_ids] = group(&held);
                Statement::new(hold, [keys, message_ids, Bind::BigInt(millis(self.lease_duration))])
            }),
            release: (!unused.is_empty()).then(|| Statement::new(release, group(&unused))),
        }
    }
}

impl<P: Sessions<Sqlite>> LeasedBatch<P> {
    fn keeping(&self, delivered: &[RowKey]) -> Vec<Statement<Sqlite>> {
        let Some((keep, texts)) = &self.keep else { return Vec::new() };
        let kept: Vec<Kept> = delivered.iter().map(|&key| Kept { key, keep: *keep }).collect();
        if kept.is_empty() { Vec::new() } else { keeping(texts, &texts.keep, &kept) }
    }
}

/// The writes of a close, as far as there are any.
struct Closing {
    keep: Vec<Statement<Sqlite>>,
    settle: Option<Statement<Sqlite>>,
    hold: Option<Statement<Sqlite>>,
    release: Option<Statement<Sqlite>>,
}

impl Closing {
    async fn run<S: Session<Sqlite>>(self, lease: &mut Lease<Sqlite, S>) -> Result<Closed, StoreError> {
        let mut closed = Closed::default();
        lease.begin(BEGIN.into()).await?;
        for keep in self.keep {
            lease.execute(keep).await?;
        }
        if let Some(settle) = self.settle {
            closed.settled = lease.load::<KeyRow>(settle).await?.into_iter().map(|row| row.0).collect();
        }
        if let Some(hold) = self.hold {
            closed.held = lease.load::<HeldRow>(hold).await?.into_iter().map(|row| row.0).collect();
        }
        if let Some(release) = self.release {
            lease.load::<KeyRow>(release).await?;
        }
        lease.commit().await?;
        Ok(closed)
    }
}

impl<P: Sessions<Sqlite>> fmt::Debug for LeasedBatch<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedBatch").field("leased", &self.leased.len()).finish_non_exhaustive()
    }
}
