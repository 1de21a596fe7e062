use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::deserialize::{QueryableByName, Result as RowResult};
use diesel::row::NamedRow;
use diesel::sqlite::Sqlite;

use super::flows::keeping;
use super::{BEGIN, SqliteStore};
use crate::clock::millis;
use crate::store::decode::{RawRow, next_epoch};
use crate::store::session::{Lease, Session, Sessions};
use crate::store::sql::binds::Binds;
use crate::store::sql::calls::Calls;
use crate::store::sql::columns::Columns;
use crate::store::sql::flows::with;
use crate::store::sql::group::Group;
use crate::store::sql::rows::{Read, raw_row};
use crate::store::sql::statements::Texts;
use crate::store::statement::{Bind, Statement};
use crate::store::text::Text;
use crate::store::{Claim, ClaimBatch, ClaimSpec, Closed, DueMark, Held, Keep, Kept, RowKey, StoreError, Term};

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    pub(super) async fn take(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let taking = Taking { texts: Arc::clone(&self.texts), spec: spec.clone() };
        let (watermark, rows) = self.calls.run(|lease| Box::pin(taking.run(lease))).await?;
        let leased = rows.iter().map(|row| Held { key: row.key, epoch: row.epoch }).collect();
        Ok(Claim {
            rows: rows.into_iter().map(|row| row.decode(&spec.topic)).collect(),
            term: Term::Leased,
            watermark,
            // Claimed rows leave the range with their lease, and the index with it.
            reached: None,
            found_all: watermark.is_some(),
            batch: Box::new(LeasedBatch {
                calls: self.calls.clone(),
                texts: Arc::clone(&self.texts),
                leased,
                lease_duration: spec.lease_duration,
                keep: spec.keep,
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
            Bind::text(&spec.topic),
            Bind::Number(spec.after.map_or(i64::MIN, DueMark::next)),
            Bind::limit(spec.rows_max),
            Bind::limit(spec.bytes_max),
        ];
        let read: Vec<DueMessage> = lease.load(Statement::new(&texts.claims.claim, binds)).await?;
        let (watermark, rows) = sort_out(read, &spec);
        if !rows.is_empty() {
            let ids = Sqlite::rows(&rows.iter().map(|row| row.key.id).collect::<Vec<_>>());
            let binds = [ids, Bind::Number(millis(spec.lease_duration))];
            lease.execute(Statement::new(&texts.claims.lease, binds)).await?;
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

/// A row of the statement that reads what is due: what it says of the whole, and a row where there is one.
struct DueMessage {
    read_at: i64,
    /// How many were found, before they were cut at the bytes.
    found: i64,
    row: Option<(i64, RawRow)>,
}

impl QueryableByName<Sqlite> for DueMessage {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> RowResult<Self> {
        let due = match Sqlite::optional_number(row, 2)? {
            Some(due_at) => Some((due_at, raw_row::<Sqlite>(row, 3)?)),
            None => None,
        };
        Ok(Self { read_at: Sqlite::number(row, 0)?, found: Sqlite::number(row, 1)?, row: due })
    }
}

/// A claim whose rows are leased.
struct LeasedBatch<P: Sessions<Sqlite>> {
    calls: Calls<Sqlite, P>,
    texts: Arc<Texts>,
    leased: Vec<Held>,
    lease_duration: Duration,
    keep: Option<Keep>,
}

#[async_trait]
impl<P: Sessions<Sqlite>> ClaimBatch for LeasedBatch<P> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let closing = self.closing(delivered, held);
        if closing.settle.is_none() && closing.hold.is_none() && closing.release.is_none() {
            return Ok(Closed::default());
        }
        self.calls.run(|lease| Box::pin(closing.run(lease))).await
    }
}

impl<P: Sessions<Sqlite>> LeasedBatch<P> {
    fn closing(&self, delivered: &[RowKey], held: &[RowKey]) -> Closing {
        let (done, kept): (HashSet<_>, HashSet<_>) = (delivered.iter().collect(), held.iter().collect());
        let open = self.leased.iter().filter(|row| !done.contains(&row.key));
        let (held, unused): (Vec<Held>, Vec<Held>) = open.partition(|row| kept.contains(&row.key));
        let texts = &self.texts.claims;
        let statement = |text: &Text, group: Group, rest: &[_]| {
            let is_any = !group.rows.is_empty();
            is_any.then(|| Statement::new(text, with(Sqlite::group(&group, text.first()), rest)))
        };
        let held_for = [Bind::Number(millis(self.lease_duration))];
        Closing {
            keep: self.keeping(delivered),
            settle: statement(&texts.settle_claimed, Group::keys(delivered.iter().copied()), &[]),
            hold: statement(&texts.hold, Group::held(held.into_iter()), &held_for),
            release: statement(&texts.release, Group::held(unused.into_iter()), &[]),
        }
    }

    fn keeping(&self, delivered: &[RowKey]) -> Vec<Statement<Sqlite>> {
        let Some(keep) = self.keep.filter(|_| !delivered.is_empty()) else { return Vec::new() };
        let kept: Vec<Kept> = delivered.iter().map(|&key| Kept { key, keep }).collect();
        keeping(&self.texts, &self.texts.kept.settle_claimed, &kept)
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
            closed.settled = lease.load::<Read<RowKey>>(settle).await?.into_iter().map(|row| row.0).collect();
        }
        if let Some(hold) = self.hold {
            closed.held = lease.load::<Read<Held>>(hold).await?.into_iter().map(|row| row.0).collect();
        }
        if let Some(release) = self.release {
            lease.load::<Read<()>>(release).await?;
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
