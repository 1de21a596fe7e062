//! The rows this process is responsible for: handed to the transport and not yet settled.
//!
//! The ledger bounds them by count and bytes, knows who takes each outcome (an open claim, or the settler), and
//! prevents this process from sending a row twice at the same time.

pub(super) mod claim_outcomes;
pub(super) mod deferred;
pub(super) mod entry;
pub(super) mod lease_renewer;

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::metrics::Gauge;
use tokio::sync::Notify;

use self::claim_outcomes::ClaimOutcomes;
use self::deferred::DeferredRows;
use self::entry::{Entry, Holder, Lease, Progress};
use crate::clock::BootInstant;
use crate::limits::{Limits, OUTCOME_GRACE};
use crate::store::{Held, HistoryRow, RowKey};

#[derive(Debug)]
pub(crate) struct Ledger<L> {
    inner: Mutex<Inner<L>>,
    changed: Notify,
    rows_max: usize,
    bytes_max: usize,
    in_flight: Gauge,
    /// Rows that were handed over and sent, but not delivered.
    pub(crate) deferred: DeferredRows,
}

#[derive(Debug)]
struct Inner<L> {
    rows: HashMap<RowKey, Entry<L>>,
    bytes: usize,
    reserved_rows: usize,
    reserved_bytes: usize,
}

impl<L: Clone> Ledger<L> {
    /// The ledger of one transport, with its share of the limits.
    pub(crate) fn new(in_flight: Gauge, limits: &Limits) -> Self {
        Self {
            inner: Mutex::new(Inner { rows: HashMap::new(), bytes: 0, reserved_rows: 0, reserved_bytes: 0 }),
            changed: Notify::new(),
            rows_max: limits.in_flight_max,
            bytes_max: limits.in_flight_bytes_max,
            in_flight,
            deferred: DeferredRows::new(limits.in_flight_max),
        }
    }

    /// Waits for room for at least one row and reserves up to `rows` rows and `bytes` bytes. Cancel safe.
    pub(crate) async fn reserve(self: &Arc<Self>, rows: usize, bytes: usize) -> Reservation<L> {
        loop {
            let changed = self.changed.notified();
            if let Some(reservation) = self.try_reserve(rows, bytes) {
                return reservation;
            }
            changed.await;
        }
    }

    fn try_reserve(self: &Arc<Self>, rows: usize, bytes: usize) -> Option<Reservation<L>> {
        let mut inner = self.lock();
        let rows = rows.min(self.rows_max.saturating_sub(inner.rows.len() + inner.reserved_rows));
        let bytes = bytes.min(self.bytes_max.saturating_sub(inner.bytes + inner.reserved_bytes));
        if rows == 0 || bytes == 0 {
            return None;
        }
        inner.reserved_rows += rows;
        inner.reserved_bytes += bytes;
        Some(Reservation { ledger: Arc::clone(self), rows, bytes })
    }

    /// Enters a row that is about to be sent; `Err` with its progress if it is already here.
    pub(crate) fn enter(&self, row: RowKey, entry: Entry<L>, from: &mut Reservation<L>) -> Result<(), Progress> {
        let mut inner = self.lock();
        let bytes = entry.bytes;
        match inner.rows.entry(row) {
            MapEntry::Occupied(known) => return Err(known.get().progress),
            MapEntry::Vacant(free) => {
                entry.topic.sent();
                free.insert(entry);
            }
        }
        inner.bytes += bytes;
        let (spent_rows, spent_bytes) = from.spend(bytes);
        inner.reserved_rows -= spent_rows;
        inner.reserved_bytes -= spent_bytes;
        self.in_flight.set(inner.rows.len() as f64);
        Ok(())
    }

    /// Notes that a row has its outcome, and returns the entry as it is now.
    pub(crate) fn complete(&self, row: RowKey, delivered: bool) -> Option<Entry<L>> {
        let mut inner = self.lock();
        let entry = inner.rows.get_mut(&row).filter(|entry| entry.progress == Progress::InFlight)?;
        entry.progress = if delivered { Progress::Delivered } else { Progress::Failed };
        entry.topic.completed();
        Some(entry.clone())
    }

    /// Sets who holds a row. A row that is no longer here has been settled.
    pub(crate) fn set_holder(&self, row: RowKey, holder: Holder<L>) {
        if let Some(entry) = self.lock().rows.get_mut(&row) {
            entry.holder = holder;
        }
    }

    /// Removes a row: it is settled, its failure is written, or this process abandons it.
    pub(crate) fn remove(&self, row: RowKey) -> Option<Entry<L>> {
        let mut inner = self.lock();
        let entry = self.remove_entry(&mut inner, row)?;
        self.in_flight.set(inner.rows.len() as f64);
        drop(inner);
        self.changed.notify_waiters();
        Some(entry)
    }

    /// Removes a row that failed, if it is held under this epoch or its lease is lost. A row that was abandoned and
    /// sent again stays: its answer is still to come.
    pub(crate) fn remove_failed(&self, row: RowKey, epoch: Option<i32>) {
        let mut inner = self.lock();
        let is_that = inner.rows.get(&row).is_some_and(|entry| match entry.holder {
            Holder::Lease(lease) => Some(lease.epoch) == epoch,
            Holder::Lost => entry.progress == Progress::Failed,
            Holder::Claim(_) | Holder::Lane(_) => false,
        });
        if is_that {
            self.remove_entry(&mut inner, row);
            self.in_flight.set(inner.rows.len() as f64);
            drop(inner);
            self.changed.notify_waiters();
        }
    }

    /// Removes a row. If it has no outcome yet, for example because somebody made it undecodable, it waits for none.
    fn remove_entry(&self, inner: &mut Inner<L>, row: RowKey) -> Option<Entry<L>> {
        let entry = inner.rows.remove(&row)?;
        inner.bytes = inner.bytes.saturating_sub(entry.bytes);
        if entry.is_handed_over() && entry.progress != Progress::Delivered {
            self.deferred.add([(entry.topic.name(), row.into())]);
        }
        if entry.progress == Progress::InFlight {
            entry.topic.completed();
        }
        Some(entry)
    }

    /// [`remove`](Self::remove) for many, under one lock.
    pub(crate) fn remove_all(&self, rows: &[RowKey]) -> Vec<Entry<L>> {
        let mut inner = self.lock();
        let removed: Vec<Entry<L>> = rows.iter().filter_map(|row| self.remove_entry(&mut inner, *row)).collect();
        self.in_flight.set(inner.rows.len() as f64);
        drop(inner);
        self.changed.notify_waiters();
        removed
    }

    /// The lease under which a row is held, if it still is.
    pub(crate) fn lease(&self, row: RowKey) -> Option<(Lease, Entry<L>)> {
        let inner = self.lock();
        let entry = inner.rows.get(&row)?;
        match entry.holder {
            Holder::Lease(lease) => Some((lease, entry.clone())),
            Holder::Claim(_) | Holder::Lane(_) | Holder::Lost => None,
        }
    }

    /// Splits `rows` into those that go to the history when they are settled, and the others.
    pub(crate) fn kept_and_deleted(&self, rows: &[RowKey]) -> (Vec<HistoryRow>, Vec<RowKey>) {
        let (mut kept, mut deleted) = (Vec::new(), Vec::new());
        let inner = self.lock();
        for &key in rows {
            match inner.rows.get(&key).and_then(|entry| entry.topic.config.keep()) {
                Some(keep) => kept.push(HistoryRow { key, keep }),
                None => deleted.push(key),
            }
        }
        (kept, deleted)
    }

    /// Counts rows that entered the history.
    pub(crate) fn count_kept<'a>(&self, rows: impl Iterator<Item = &'a RowKey>) {
        let inner = self.lock();
        rows.filter_map(|row| inner.rows.get(row)).for_each(|entry| entry.topic.kept(1));
    }

    /// The lane from which a row was sent.
    pub(crate) fn lane(&self, row: RowKey) -> Option<(L, Entry<L>)> {
        let inner = self.lock();
        let entry = inner.rows.get(&row)?;
        match &entry.holder {
            Holder::Lane(in_flight) => Some((in_flight.clone(), entry.clone())),
            Holder::Claim(_) | Holder::Lease(_) | Holder::Lost => None,
        }
    }

    /// Applies `of` to the lane of each row here and returns the set of results.
    pub(crate) fn lanes_in_use<T: Eq + Hash>(&self, of: impl Fn(&L) -> Option<T>) -> HashSet<T> {
        let inner = self.lock();
        let lanes = inner.rows.values().filter_map(|entry| match &entry.holder {
            Holder::Lane(lane) => of(lane),
            Holder::Claim(_) | Holder::Lease(_) | Holder::Lost => None,
        });
        lanes.collect()
    }

    /// How far a row has come, if it is here.
    pub(crate) fn progress(&self, row: RowKey) -> Option<Progress> {
        self.lock().rows.get(&row).map(|entry| entry.progress)
    }

    /// Wakes all who wait for a [change](Self::changed): something outside of this ledger changed.
    pub(crate) fn notify_waiters(&self) {
        self.changed.notify_waiters();
    }

    /// Leases near their end, of rows whose outcome is still open: in flight, or delivered and not yet settled. A
    /// failure is written within moments; otherwise the row is due when its lease ends.
    pub(crate) fn leases_to_extend(&self, now: BootInstant) -> Vec<Held> {
        let inner = self.lock();
        let held = inner.rows.iter().filter_map(|(key, entry)| match entry.holder {
            _ if entry.progress == Progress::Failed => None,
            Holder::Lease(lease) if lease.is_near_its_end(now) => Some(Held { key: *key, epoch: lease.epoch }),
            _ => None,
        });
        held.collect()
    }

    /// Removes and returns the rows that nobody will report on any more: those whose failure was not written before
    /// their lease ended, and those sent before `sent_before` on which the transport stays silent for [`OUTCOME_GRACE`]
    /// more. Rows of an open claim stay, because it ends soon.
    pub(crate) fn abandon_overdue(&self, sent_before: BootInstant, now: BootInstant) -> Vec<(RowKey, Entry<L>)> {
        let mut inner = self.lock();
        let is_abandoned = |entry: &mut Entry<L>| match (entry.progress, &entry.holder) {
            (Progress::Failed, Holder::Lost) => true,
            (Progress::Failed | Progress::Delivered, _) | (_, Holder::Claim(_)) => false,
            (Progress::InFlight, _) if entry.sent_at >= sent_before => false,
            (Progress::InFlight, _) => entry.overdue_since.get_or_insert(now).until(now) >= OUTCOME_GRACE,
        };
        let rows = inner.rows.iter_mut().filter_map(|(key, entry)| is_abandoned(entry).then_some(*key));
        let rows: Vec<RowKey> = rows.collect();
        if rows.is_empty() {
            return Vec::new();
        }
        let abandoned = rows.into_iter().filter_map(|row| Some((row, self.remove_entry(&mut inner, row)?))).collect();
        self.in_flight.set(inner.rows.len() as f64);
        drop(inner);
        self.changed.notify_waiters();
        abandoned
    }

    /// The rows that a claim still holds, and how far each has come.
    pub(crate) fn rows_of_claim(&self, claim: &Arc<ClaimOutcomes>) -> Vec<(RowKey, Progress)> {
        let inner = self.lock();
        let is_in_claim = |entry: &Entry<L>| matches!(&entry.holder, Holder::Claim(claim_outcomes) if Arc::ptr_eq(claim_outcomes, claim));
        let rows_of_claim = inner.rows.iter().filter(|(_, entry)| is_in_claim(entry));
        rows_of_claim.map(|(row, entry)| (*row, entry.progress)).collect()
    }

    /// When the oldest row here was sent.
    pub(crate) fn oldest(&self) -> Option<BootInstant> {
        self.lock().rows.values().map(|entry| entry.sent_at).min()
    }

    /// Notes the leases among `held` that were extended, for rows still held under the same epoch.
    pub(crate) fn note_extended(
        &self,
        extended: &[RowKey],
        held: &[Held],
        began_at: BootInstant,
        ends_at: BootInstant,
    ) {
        let epochs: HashMap<RowKey, i32> = held.iter().map(|held| (held.key, held.epoch)).collect();
        let mut inner = self.lock();
        for row in extended {
            let Some(entry) = inner.rows.get_mut(row) else { continue };
            if let Holder::Lease(lease) = &mut entry.holder
                && epochs.get(row) == Some(&lease.epoch)
            {
                *lease = Lease { epoch: lease.epoch, began_at, ends_at };
            }
        }
    }

    /// Gives up the leases that expired. Returns how many.
    pub(crate) fn drop_expired_leases(&self, now: BootInstant) -> usize {
        let mut lost = 0;
        for entry in self.lock().rows.values_mut() {
            if matches!(entry.holder, Holder::Lease(lease) if lease.ends_at <= now) {
                entry.holder = Holder::Lost;
                lost += 1;
            }
        }
        lost
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().rows.len()
    }

    /// Whether nothing is here and no room is reserved.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.rows.is_empty() && inner.reserved_rows == 0
    }

    /// Waits until something was removed or a reservation ended. Cancel safe.
    pub(crate) async fn changed(&self, done: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if done() {
                return;
            }
            changed.await;
        }
    }
}

impl<L> Ledger<L> {
    fn lock(&self) -> MutexGuard<'_, Inner<L>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for rows that are being read. Unused room is returned on drop.
#[derive(Debug)]
pub(crate) struct Reservation<L> {
    ledger: Arc<Ledger<L>>,
    rows: usize,
    bytes: usize,
}

impl<L> Reservation<L> {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A row may be larger than the reservation, because a claim always takes at least one; then it uses what there is.
    fn spend(&mut self, bytes: usize) -> (usize, usize) {
        let spent = (self.rows.min(1), self.bytes.min(bytes));
        self.rows -= spent.0;
        self.bytes -= spent.1;
        spent
    }
}

impl<L> Drop for Reservation<L> {
    fn drop(&mut self) {
        let mut inner = self.ledger.lock();
        inner.reserved_rows -= self.rows;
        inner.reserved_bytes -= self.bytes;
        drop(inner);
        self.ledger.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
