use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::sqlite::Sqlite;

use super::SqliteStore;
use super::bind::Bind;
use super::rows::{DueMessage, HeldRow, KeyRow};
use super::texts::Texts;
use crate::store::decode::RawRow;
use crate::store::session::{Connections, Sessions};
use crate::store::statement::{Statement, millis};
use crate::store::{Claim, ClaimBatch, ClaimSpec, Closed, DueMark, Held, RowKey, StoreError, Term};

/// Takes the write lock at once. A transaction that reads first cannot wait for it any more: it would have read what is
/// over by then, and fails.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

impl<P: Sessions<Sqlite>> SqliteStore<P> {
    pub(super) async fn take(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mut lease = self.connections.lease().await?;
        lease.begin(BEGIN.into()).await?;
        let after = spec.after.map_or(i64::MIN, |mark| mark.0);
        let binds = [
            Bind::Text(Arc::clone(&spec.topic)),
            Bind::BigInt(after),
            Bind::BigInt(i64::try_from(spec.rows_max).unwrap_or(i64::MAX)),
            Bind::BigInt(i64::try_from(spec.bytes_max).unwrap_or(i64::MAX)),
        ];
        let read: Vec<DueMessage> = lease.load(Statement::new(&self.texts.select_due, binds)).await?;
        let (watermark, rows) = sort_out(read, spec);
        if !rows.is_empty() {
            let ids = Bind::json(rows.iter().map(|row| row.key.id.into()));
            let binds = [ids, Bind::BigInt(millis(spec.lease_duration))];
            lease.execute(Statement::new(&self.texts.lease, binds)).await?;
        }
        lease.commit().await?;
        lease.give_back();
        let leased = rows.iter().map(|row| Held { key: row.key, epoch: row.epoch }).collect();
        Ok(Claim {
            rows: rows.into_iter().map(|row| row.decode(&spec.topic)).collect(),
            term: Term::Leased,
            watermark,
            batch: Box::new(LeasedBatch {
                connections: Arc::clone(&self.connections),
                texts: Arc::clone(&self.texts),
                leased,
                lease_duration: spec.lease_duration,
            }),
        })
    }
}

/// The rows as they will be leased, oldest first, and where the next claim may begin: nobody else can write while this
/// one reads, so below its moment nothing is left but what is still to commit.
fn sort_out(read: Vec<DueMessage>, spec: &ClaimSpec) -> (Option<DueMark>, Vec<RawRow>) {
    let slack = millis(spec.watermark_slack_duration);
    let whole = read.first().map(|row| (row.read_at, usize::try_from(row.found).unwrap_or(usize::MAX)));
    let mut due: Vec<(i64, RawRow)> = read.into_iter().filter_map(|row| row.row).collect();
    due.sort_by_key(|(due_at, row)| (*due_at, row.key.id));
    let rows: Vec<RawRow> = due.into_iter().map(|(_, row)| RawRow { epoch: row.epoch + 1, ..row }).collect();
    let is_under_full = |found| found < spec.rows_max && found == rows.len();
    let watermark = whole.filter(|&(_, found)| is_under_full(found)).map(|(read_at, _)| DueMark(read_at - slack));
    (watermark, rows)
}

/// A claim whose rows are leased.
struct LeasedBatch<P: Sessions<Sqlite>> {
    connections: Arc<Connections<Sqlite, P>>,
    texts: Arc<Texts>,
    leased: Vec<Held>,
    lease_duration: Duration,
}

#[async_trait]
impl<P: Sessions<Sqlite>> ClaimBatch for LeasedBatch<P> {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        self.connections.within(self.write(delivered, held)).await
    }
}

impl<P: Sessions<Sqlite>> LeasedBatch<P> {
    async fn write(&self, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let (done, kept): (HashSet<_>, HashSet<_>) = (delivered.iter().collect(), held.iter().collect());
        let open = self.leased.iter().filter(|row| !done.contains(&row.key));
        let (held, unused): (Vec<Held>, Vec<Held>) = open.partition(|row| kept.contains(&row.key));
        let mut closed = Closed::default();
        if delivered.is_empty() && held.is_empty() && unused.is_empty() {
            return Ok(closed);
        }
        let mut lease = self.connections.lease().await?;
        lease.begin(BEGIN.into()).await?;
        if !delivered.is_empty() {
            let settled: Vec<KeyRow> = lease.load(Statement::new(&self.texts.settle, Bind::keys(delivered))).await?;
            closed.settled = settled.into_iter().map(|row| row.0).collect();
        }
        if !held.is_empty() {
            let [keys, message_ids] = Bind::held(&held, |row| *row, |_| Vec::new());
            let binds = [keys, message_ids, Bind::BigInt(millis(self.lease_duration))];
            let leased: Vec<HeldRow> = lease.load(Statement::new(&self.texts.hold, binds)).await?;
            closed.held = leased.into_iter().map(|row| row.0).collect();
        }
        if !unused.is_empty() {
            let binds = Bind::held(&unused, |row| *row, |_| Vec::new());
            lease.load::<KeyRow>(Statement::new(&self.texts.release, binds)).await?;
        }
        lease.commit().await?;
        lease.give_back();
        Ok(closed)
    }
}

impl<P: Sessions<Sqlite>> fmt::Debug for LeasedBatch<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedBatch").field("leased", &self.leased.len()).finish_non_exhaustive()
    }
}
