//! Bounds and counts the connections of a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{CONNECTIONS_LEFT_FREE, OWN_CONNECTIONS_MAX};
use crate::store::TooFewConnections;

/// The place of one connection among those of its store. It is freed when the connection is closed.
pub(super) type Place = OwnedSemaphorePermit;

#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// How many places there are.
    all: Mutex<usize>,
    /// Whether a relay has said how many it needs.
    is_reserved: AtomicBool,
}

impl Places {
    /// The places of a store, whose pool may bound them.
    pub(super) fn new(is_managed: bool) -> Self {
        let all = if is_managed { OWN_CONNECTIONS_MAX } else { Semaphore::MAX_PERMITS };
        Self { free: Arc::new(Semaphore::new(all)), all: Mutex::new(all), is_reserved: AtomicBool::new(false) }
    }

    /// Waits for a free place. Cancel safe.
    pub(super) async fn take(&self) -> Place {
        let Ok(place) = Arc::clone(&self.free).acquire_owned().await else {
            unreachable!("the semaphore is never closed")
        };
        place
    }

    /// Sets the number of places to `most`, which a relay can use at once, or to what a pool of `size` can give.
    /// [`CONNECTIONS_LEFT_FREE`] of the pool stay for others.
    pub(super) fn reserve(&self, size: Option<usize>, needs: usize, most: usize) -> Result<(), TooFewConnections> {
        if let Some(has) = size.filter(|has| *has < needs) {
            return Err(TooFewConnections { has, needs });
        }
        self.is_reserved.store(true, Ordering::Relaxed);
        let wanted = size.map_or(most, |size| most.min(size.saturating_sub(CONNECTIONS_LEFT_FREE))).max(1);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        match wanted.checked_sub(*all) {
            Some(more) => self.free.add_permits(more),
            // No call was made yet, so all places are free.
            None => drop(self.free.forget_permits(*all - wanted)),
        }
        *all = wanted;
        Ok(())
    }

    /// How many places are taken.
    pub(super) fn taken(&self) -> usize {
        let all = *self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.saturating_sub(self.free.available_permits())
    }

    /// Whether a relay uses the store.
    pub(super) fn is_reserved(&self) -> bool {
        self.is_reserved.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_pool_one_connection_is_for_others() {
        for (size, most, wanted) in [(Some(6), 9, 5), (Some(20), 9, 9), (None, 9, 9), (Some(10), 10, 9)] {
            let places = Places::new(size.is_none());
            places.reserve(size, 6, most).expect("enough");
            assert_eq!((places.free.available_permits(), places.taken()), (wanted, 0), "{size:?} {most}");
        }
        let places = Places::new(false);
        places.reserve(Some(1), 1, 1).expect("one is enough where no more is needed");
        assert_eq!(places.free.available_permits(), 1);
    }

    #[test]
    fn a_pool_that_is_too_small_is_refused() {
        assert_eq!(Places::new(false).reserve(Some(4), 6, 9), Err(TooFewConnections { has: 4, needs: 6 }));
    }
}
