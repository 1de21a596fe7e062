//! A stand-in for Redis, in this process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;

use super::{CacheAway, Deduction, Load, Reservation, Reserved, Shelf, StockCache};

/// Behaves as the scripts of the real one do.
#[derive(Debug, Default)]
pub struct MemoryCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    shelves: BTreeMap<i64, Counts>,
    is_away: bool,
    /// The next such change happens, and its answer is lost.
    loses: Option<Change>,
}

/// A change whose answer can be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are those of `StockCache`")]
pub enum Change {
    Deduct,
    GiveBack,
    Sell,
}

#[derive(Debug)]
struct Counts {
    generation: i64,
    available: i64,
    sold: i64,
    /// By order.
    reserved: BTreeMap<String, (Reservation, Instant)>,
}

impl MemoryCache {
    /// Loses everything, as `FLUSHALL` and a restart without persistence do.
    pub fn flush(&self) {
        self.state().shelves.clear();
    }

    /// Answers nothing for a while.
    pub fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Does the next change of this kind, and loses the answer, as a connection does that breaks meanwhile.
    pub fn lose_answer(&self, change: Change) {
        self.state().loses = Some(change);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, run: impl FnOnce(&mut BTreeMap<i64, Counts>) -> T) -> Result<T, CacheAway> {
        let mut state = self.state();
        if state.is_away {
            return Err(CacheAway("it was told not to".to_owned()));
        }
        Ok(run(&mut state.shelves))
    }

    fn change<T>(&self, change: Change, run: impl FnOnce(&mut BTreeMap<i64, Counts>) -> T) -> Result<T, CacheAway> {
        let answer = self.with(run)?;
        match self.state().loses.take_if(|loses| *loses == change) {
            Some(_) => Err(CacheAway("the connection broke before the answer".to_owned())),
            None => Ok(answer),
        }
    }

    /// Takes a reservation out, if it is there.
    fn take(&self, change: Change, of: &Reservation, then: impl FnOnce(&mut Counts, i64)) -> Result<bool, CacheAway> {
        self.change(change, |shelves| {
            let Some(counts) = shelves.get_mut(&of.product_id) else { return false };
            match counts.reserved.get(&of.order_id) {
                Some((there, _)) if there.id == of.id => {}
                _ => return false,
            }
            if let Some((there, _)) = counts.reserved.remove(&of.order_id) {
                then(counts, there.quantity);
            }
            true
        })
    }
}

#[async_trait]
impl StockCache for MemoryCache {
    async fn deduct(&self, asked: &Reservation) -> Result<Deduction, CacheAway> {
        self.change(Change::Deduct, |shelves| {
            let Some(counts) = shelves.get_mut(&asked.product_id) else { return Deduction::UnknownProduct };
            let generation = counts.generation;
            if let Some((before, _)) = counts.reserved.get(&asked.order_id) {
                return Deduction::DeductedBefore { generation, reservation: before.clone() };
            }
            if counts.available < asked.quantity {
                return Deduction::NotEnough { available: counts.available };
            }
            counts.available -= asked.quantity;
            counts.reserved.insert(asked.order_id.clone(), (asked.clone(), Instant::now()));
            Deduction::Deducted { generation }
        })
    }

    async fn give_back(&self, reservation: &Reservation) -> Result<bool, CacheAway> {
        self.take(Change::GiveBack, reservation, |counts, quantity| counts.available += quantity)
    }

    async fn sell(&self, reservation: &Reservation) -> Result<bool, CacheAway> {
        self.take(Change::Sell, reservation, |counts, quantity| counts.sold += quantity)
    }

    async fn read(&self, product_id: i64) -> Result<Option<Shelf>, CacheAway> {
        self.with(|shelves| {
            let counts = shelves.get(&product_id)?;
            let reserved = counts.reserved.values().map(|(reservation, since)| Reserved {
                reservation: reservation.clone(),
                age_ms: i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX),
            });
            Some(Shelf {
                generation: counts.generation,
                available: counts.available,
                sold: counts.sold,
                reserved: reserved.collect(),
            })
        })
    }

    async fn load(&self, load: &Load) -> Result<bool, CacheAway> {
        self.with(|shelves| {
            if shelves.get(&load.product_id).is_some_and(|there| there.generation >= load.generation) {
                return false;
            }
            let now = Instant::now();
            let reserved = load.reserved.iter().map(|of| (of.order_id.clone(), (of.clone(), now))).collect();
            let Load { generation, available, sold, .. } = *load;
            shelves.insert(load.product_id, Counts { generation, available, sold, reserved });
            true
        })
    }

    async fn unload(&self, product_id: i64) -> Result<(), CacheAway> {
        self.with(|shelves| drop(shelves.remove(&product_id)))
    }
}
