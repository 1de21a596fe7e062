use std::time::Duration;

use super::{MemoryRow, Micros, Session, State};
use crate::limits::CLAIM_IDLE_GRACE;
use crate::retention::Keep;
use crate::store::poll::watermark;
use crate::store::{ClaimMode, ClaimSpec, Closed, DueWatermark, Held, HistoryRow, Loaded, RowKey};

/// What a claim took.
#[derive(Debug)]
pub(in crate::store::memory) struct ClaimedRows {
    pub(in crate::store::memory) rows: Vec<Loaded>,
    pub(in crate::store::memory) held_by: HeldBy,
    pub(in crate::store::memory) watermark: DueWatermark,
    pub(in crate::store::memory) reached: Option<DueWatermark>,
    pub(in crate::store::memory) found_all: bool,
}

/// How an open claim holds its rows.
#[derive(Debug)]
pub(in crate::store::memory) enum HeldBy {
    Session(Session),
    Leases(Vec<Held>),
}

/// The session of a claim ended before its close.
#[derive(Debug, thiserror::Error)]
#[error("the claim's session is gone: its time was over, or the database went down")]
pub(in crate::store::memory) struct SessionEnded;

impl State {
    pub(in crate::store::memory) fn claim(&mut self, spec: &ClaimSpec, mode: ClaimMode) -> ClaimedRows {
        let now = self.clock.now();
        let (read, fitting) = self.select_due(spec, now);
        let keys = &read[..fitting];
        let found_all = fitting == read.len() && fitting < spec.rows_max;
        // A plain read of the same range: it also sees rows that others have locked and may release.
        let first = self.due(spec, now).map(|row| row.due_at).min();
        let slack = Micros(0).plus(spec.watermark_slack_duration).0;
        let watermark = watermark(now.0, first.map(|first| first.0), slack);
        let last = keys.last().and_then(|&key| self.row(key)).map(|row| row.due_at);
        let reached = last.map(|last| DueWatermark(last.0 - 1));
        let held_by = match mode {
            ClaimMode::Locked => {
                let session = self.begin(Some(now.plus(spec.lock_duration + CLAIM_IDLE_GRACE)));
                // Also those beyond the byte limit, as databases do that lock what they read.
                for &key in &read {
                    assert!(self.lock(key, session), "the row was free a moment ago, under this same lock");
                }
                HeldBy::Session(session)
            }
            ClaimMode::Leased => {
                let due_at = now.plus(spec.lease_duration);
                HeldBy::Leases(keys.iter().filter_map(|&key| self.lease(key, due_at)).collect())
            }
        };
        let rows = keys.iter().filter_map(|&key| self.row(key)).map(MemoryRow::load).collect();
        ClaimedRows { rows, held_by, watermark, reached, found_all }
    }

    /// The first rows that are free, and how many of them fit the byte limit.
    fn select_due(&self, spec: &ClaimSpec, now: Micros) -> (Vec<RowKey>, usize) {
        let mut free: Vec<_> = self.due(spec, now).filter(|row| !self.is_locked(row, now)).collect();
        free.sort_unstable_by_key(|row| (row.due_at, row.key.id));
        free.truncate(spec.rows_max);
        let mut bytes = 0;
        let fits = |&(position, row): &(usize, &&MemoryRow)| {
            bytes += row.envelope.payload.as_ref().map_or(0, Vec::len);
            position == 0 || bytes <= spec.bytes_max
        };
        let fitting = free.iter().enumerate().take_while(fits).count();
        (free.iter().map(|row| row.key).collect(), fitting)
    }

    fn due<'a>(&'a self, spec: &'a ClaimSpec, now: Micros) -> impl Iterator<Item = &'a MemoryRow> {
        let after = spec.after.map_or(Micros(i64::MIN), |mark| Micros(mark.0));
        self.unordered(&spec.topic).filter(move |row| after < row.due_at && row.due_at <= now)
    }

    pub(in crate::store::memory) fn close(
        &mut self,
        held_by: &HeldBy,
        delivered: &[RowKey],
        held: &[RowKey],
        lease: Duration,
        keep: Option<Keep>,
    ) -> Result<Closed, SessionEnded> {
        match held_by {
            HeldBy::Session(session) => {
                // Ended first: its own locks then block nobody, and nothing else can run in between.
                if !self.end(*session) {
                    return Err(SessionEnded);
                }
                let settled = self.settle_delivered(delivered, keep);
                let due_at = self.clock.now().plus(lease);
                Ok(Closed { settled, held: held.iter().filter_map(|&key| self.lease(key, due_at)).collect() })
            }
            HeldBy::Leases(leased) => {
                let settled = self.settle_delivered(delivered, keep);
                let (kept, unused): (Vec<_>, Vec<_>) = leased.iter().partition(|row| held.contains(&row.key));
                self.release(&unused);
                let due_at = self.clock.now().plus(lease);
                let kept = kept.into_iter().filter(|row: &Held| self.is_held(*row)).collect::<Vec<_>>();
                Ok(Closed { settled, held: kept.iter().filter_map(|row| self.lease(row.key, due_at)).collect() })
            }
        }
    }

    fn settle_delivered(&mut self, delivered: &[RowKey], keep: Option<Keep>) -> Vec<RowKey> {
        match keep {
            Some(keep) => {
                let rows: Vec<HistoryRow> = delivered.iter().map(|&key| HistoryRow { key, keep }).collect();
                self.settle_into_history(&rows).removed
            }
            None => self.settle(delivered).removed,
        }
    }

    /// Writes a lease under the next epoch.
    fn lease(&mut self, key: RowKey, due_at: Micros) -> Option<Held> {
        let row = self.row_mut(key)?;
        row.due_at = due_at;
        row.epoch += 1;
        Some(Held { key, epoch: row.epoch })
    }
}
