//! The rows this process is responsible for: handed to the transport and not yet settled.
//!
//! It bounds them by count and bytes, knows who takes each outcome (an open claim, or the settler), and keeps a row that
//! is known here from being sent a second time.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::metrics::Gauge;
use tokio::sync::Notify;

use super::batch::BatchOutcomes;
use super::entry::{Entry, Holder, Lease, Progress};
use super::lanes::hold::LaneHold;
use super::lanes::topic::TopicLanes;
use super::leftovers::Leftovers;
use crate::clock::BootInstant;
use crate::limits::{ANSWER_GRACE, Limits};
use crate::store::{Held, Kept, RowKey};

#[derive(Debug)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
    changed: Notify,
    rows_max: usize,
    bytes_max: usize,
    in_flight: Gauge,
    /// Of what was handed over and sent, and not delivered.
    pub(crate) leftovers: Leftovers,
}

#[derive(Debug, Default)]
struct Books {
    rows: HashMap<RowKey, Entry>,
    bytes: usize,
    reserved_rows: usize,
    reserved_bytes: usize,
}

impl Ledger {
    /// The ledger of one transport, with its share of the limits.
    pub(crate) fn new(in_flight: Gauge, limits: &Limits) -> Self {
        Self {
            books: Mutex::default(),
            changed: Notify::new(),
            rows_max: limits.in_flight_max,
            bytes_max: limits.in_flight_bytes_max,
            in_flight,
            leftovers: Leftovers::new(limits.in_flight_max),
        }
    }

    /// Waits for room for at least one row and reserves up to `rows` rows and `bytes` bytes. Cancel safe.
    pub(crate) async fn reserve(self: &Arc<Self>, rows: usize, bytes: usize) -> Reservation {
        loop {
            let changed = self.changed.notified();
            if let Some(reservation) = self.try_reserve(rows, bytes) {
                return reservation;
            }
            changed.await;
        }
    }

    fn try_reserve(self: &Arc<Self>, rows: usize, bytes: usize) -> Option<Reservation> {
        let mut books = self.lock();
        let rows = rows.min(self.rows_max.saturating_sub(books.rows.len() + books.reserved_rows));
        let bytes = bytes.min(self.bytes_max.saturating_sub(books.bytes + books.reserved_bytes));
        if rows == 0 || bytes == 0 {
            return None;
        }
        books.reserved_rows += rows;
        books.reserved_bytes += bytes;
        Some(Reservation { ledger: Arc::clone(self), rows, bytes })
    }

    /// Enters a row that is about to be sent; `Err` with what is known where it is here already.
    pub(crate) fn enter(&self, row: RowKey, entry: Entry, from: &mut Reservation) -> Result<(), Progress> {
        let mut books = self.lock();
        let bytes = entry.bytes;
        match books.rows.entry(row) {
            MapEntry::Occupied(known) => return Err(known.get().progress),
            MapEntry::Vacant(free) => {
                entry.topic.sent();
                free.insert(entry);
            }
        }
        books.bytes += bytes;
        let (spent_rows, spent_bytes) = from.spend(bytes);
        books.reserved_rows -= spent_rows;
        books.reserved_bytes -= spent_bytes;
        self.in_flight.set(books.rows.len() as f64);
        Ok(())
    }

    /// Notes that the transport answered and returns the entry as it is now.
    pub(crate) fn answered(&self, row: RowKey, delivered: bool) -> Option<Entry> {
        let mut books = self.lock();
        let entry = books.rows.get_mut(&row).filter(|entry| entry.progress == Progress::InFlight)?;
        entry.progress = if delivered { Progress::Delivered } else { Progress::Failed };
        entry.topic.answered();
        Some(entry.clone())
    }

    /// Says who holds a row now. A row that is no longer here has been settled meanwhile.
    pub(crate) fn set_holder(&self, row: RowKey, holder: Holder) {
        if let Some(entry) = self.lock().rows.get_mut(&row) {
            entry.holder = holder;
        }
    }

    /// Strikes a row out: it is settled, written as failed, or given up by this process.
    pub(crate) fn strike(&self, row: RowKey) -> Option<Entry> {
        let mut books = self.lock();
        let entry = self.remove(&mut books, row)?;
        self.in_flight.set(books.rows.len() as f64);
        drop(books);
        self.changed.notify_waiters();
        Some(entry)
    }

    /// Strikes out a row that failed, under a lease of this epoch or one that was lost; not one that was given up meanwhile and is sent
    /// anew, the answer to which is still to come.
    pub(crate) fn strike_failed(&self, row: RowKey, epoch: Option<i32>) {
        let mut books = self.lock();
        let is_that = books.rows.get(&row).is_some_and(|entry| match entry.holder {
            Holder::Lease(lease) => Some(lease.epoch) == epoch,
            Holder::Lost => entry.progress == Progress::Failed,
            Holder::Batch(_) | Holder::Lane(_) => false,
        });
        if is_that {
            self.remove(&mut books, row);
            self.in_flight.set(books.rows.len() as f64);
            drop(books);
            self.changed.notify_waiters();
        }
    }

    /// A row that is struck out before its answer, because somebody made it undecodable meanwhile, waits for none.
    fn remove(&self, books: &mut Books, row: RowKey) -> Option<Entry> {
        let entry = books.rows.remove(&row)?;
        books.bytes = books.bytes.saturating_sub(entry.bytes);
        if entry.is_handed_over() && entry.progress != Progress::Delivered {
            self.leftovers.add([(entry.topic.name(), row.into())]);
        }
        if entry.progress == Progress::InFlight {
            entry.topic.answered();
        }
        Some(entry)
    }

    /// [`strike`](Self::strike) for many, under one lock.
    pub(crate) fn strike_all(&self, rows: &[RowKey]) {
        let mut books = self.lock();
        let struck: Vec<Entry> = rows.iter().filter_map(|row| self.remove(&mut books, *row)).collect();
        self.in_flight.set(books.rows.len() as f64);
        drop(books);
        drop(struck);
        self.changed.notify_waiters();
    }

    /// The lease under which a row is held, where it still is.
    pub(crate) fn lease(&self, row: RowKey) -> Option<(Lease, Entry)> {
        let books = self.lock();
        let entry = books.rows.get(&row)?;
        match entry.holder {
            Holder::Lease(lease) => Some((lease, entry.clone())),
            Holder::Batch(_) | Holder::Lane(_) | Holder::Lost => None,
        }
    }

    /// Those of `rows` that are kept when they are settled, and the others.
    pub(crate) fn kept_and_deleted(&self, rows: &[RowKey]) -> (Vec<Kept>, Vec<RowKey>) {
        let (mut kept, mut deleted) = (Vec::new(), Vec::new());
        let books = self.lock();
        for &key in rows {
            match books.rows.get(&key).and_then(|entry| entry.topic.topic.keep()) {
                Some(keep) => kept.push(Kept { key, keep }),
                None => deleted.push(key),
            }
        }
        (kept, deleted)
    }

    /// Counts rows that entered the history.
    pub(crate) fn count_kept<'a>(&self, rows: impl Iterator<Item = &'a RowKey>) {
        let books = self.lock();
        rows.filter_map(|row| books.rows.get(row)).for_each(|entry| entry.topic.kept(1));
    }

    /// The lane that a row was sent from.
    pub(crate) fn lane(&self, row: RowKey) -> Option<(LaneHold, Entry)> {
        let books = self.lock();
        let entry = books.rows.get(&row)?;
        match &entry.holder {
            Holder::Lane(hold) => Some((hold.clone(), entry.clone())),
            Holder::Batch(_) | Holder::Lease(_) | Holder::Lost => None,
        }
    }

    /// The lanes of a topic that rows here were sent from, under whichever fence.
    pub(crate) fn lanes_in_use(&self, lanes: &TopicLanes) -> HashSet<u16> {
        let books = self.lock();
        let of_topic = books.rows.values().filter_map(|entry| match &entry.holder {
            Holder::Lane(hold) if std::ptr::eq(&*hold.lanes, lanes) => Some(hold.tenure.lane()),
            _ => None,
        });
        of_topic.collect()
    }

    /// How far a row has come, where it is here.
    pub(crate) fn progress(&self, row: RowKey) -> Option<Progress> {
        self.lock().rows.get(&row).map(|entry| entry.progress)
    }

    /// Lets whoever waits for a [change](Self::changed) look again: something changed that is not in these books.
    pub(crate) fn look_again(&self) {
        self.changed.notify_waiters();
    }

    /// Leases near their end of rows that somebody answers for: the transport, or the settler, which has what was delivered until it is
    /// settled. What failed is written within moments, or it comes back when its lease ends.
    pub(crate) fn leases_to_extend(&self, now: BootInstant) -> Vec<Held> {
        let books = self.lock();
        let held = books.rows.iter().filter_map(|(key, entry)| match entry.holder {
            _ if entry.progress == Progress::Failed => None,
            Holder::Lease(lease) if lease.nears_its_end(now) => Some(Held { key: *key, epoch: lease.epoch }),
            _ => None,
        });
        held.collect()
    }

    /// Gives up the rows that nobody answers for any more: those whose failure was not written while their lease ran, and those that
    /// were sent before that moment and that the transport says nothing of for [`ANSWER_GRACE`] more. Returns them; they are no longer
    /// here. Not those of an open claim, whose end is near.
    pub(crate) fn give_up_unanswered(&self, sent_before: BootInstant, now: BootInstant) -> Vec<(RowKey, Entry)> {
        let mut books = self.lock();
        let is_given_up = |entry: &mut Entry| match (entry.progress, &entry.holder) {
            (Progress::Failed, Holder::Lost) => true,
            (Progress::Failed | Progress::Delivered, _) | (_, Holder::Batch(_)) => false,
            (Progress::InFlight, _) if entry.sent_at >= sent_before => false,
            (Progress::InFlight, _) => entry.overdue_since.get_or_insert(now).until(now) >= ANSWER_GRACE,
        };
        let rows = books.rows.iter_mut().filter_map(|(key, entry)| is_given_up(entry).then_some(*key));
        let rows: Vec<RowKey> = rows.collect();
        if rows.is_empty() {
            return Vec::new();
        }
        let given_up = rows.into_iter().filter_map(|row| Some((row, self.remove(&mut books, row)?))).collect();
        self.in_flight.set(books.rows.len() as f64);
        drop(books);
        self.changed.notify_waiters();
        given_up
    }

    /// The rows that a claim holds still, and how far each is.
    pub(crate) fn of_claim(&self, claim: &Arc<BatchOutcomes>) -> Vec<(RowKey, Progress)> {
        let books = self.lock();
        let is_of_claim = |entry: &Entry| matches!(&entry.holder, Holder::Batch(batch) if Arc::ptr_eq(batch, claim));
        let of_claim = books.rows.iter().filter(|(_, entry)| is_of_claim(entry));
        of_claim.map(|(row, entry)| (*row, entry.progress)).collect()
    }

    /// Since when the oldest of the rows here has been sent.
    pub(crate) fn oldest(&self) -> Option<BootInstant> {
        self.lock().rows.values().map(|entry| entry.sent_at).min()
    }

    /// Notes the leases among `held` that were prolonged, where the row is still held under the same epoch.
    pub(crate) fn prolong(&self, prolonged: &[RowKey], held: &[Held], began_at: BootInstant, ends_at: BootInstant) {
        let epochs: HashMap<RowKey, i32> = held.iter().map(|held| (held.key, held.epoch)).collect();
        let mut books = self.lock();
        for row in prolonged {
            let Some(entry) = books.rows.get_mut(row) else { continue };
            if let Holder::Lease(lease) = &mut entry.holder
                && epochs.get(row) == Some(&lease.epoch)
            {
                *lease = Lease { epoch: lease.epoch, began_at, ends_at };
            }
        }
    }

    /// Gives up the leases that ended without being prolonged; returns how many.
    pub(crate) fn lose_ended_leases(&self, now: BootInstant) -> usize {
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

    /// Whether nothing is here and nothing is about to be entered.
    pub(crate) fn is_idle(&self) -> bool {
        let books = self.lock();
        books.rows.is_empty() && books.reserved_rows == 0
    }

    /// Waits until something was struck out or a reservation ended. Cancel safe.
    pub(crate) async fn changed(&self, done: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if done() {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for rows that are being read; what is not used goes back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    rows: usize,
    bytes: usize,
}

impl Reservation {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A row may be larger than what was reserved, because a claim always takes one; then it takes what is there.
    fn spend(&mut self, bytes: usize) -> (usize, usize) {
        let spent = (self.rows.min(1), self.bytes.min(bytes));
        self.rows -= spent.0;
        self.bytes -= spent.1;
        spent
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.ledger.lock();
        books.reserved_rows -= self.rows;
        books.reserved_bytes -= self.bytes;
        drop(books);
        self.ledger.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
