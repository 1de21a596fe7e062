//! Settles reservations whose order is not, or not any more.

use std::collections::HashMap;
use std::time::Duration;

use super::Reconciler;
use crate::Failure;
use crate::cache::{Reservation, Shelf};
use crate::domain::OrderState;
use crate::shop::orders::Verdict;
use crate::shop::release::{follow, settle_by_table};

/// How long one decision may take. A request may be stopped in its transaction, and the others must not wait for it.
const DECISION_TIMEOUT: Duration = Duration::from_secs(2);

impl Reconciler {
    /// Settles what has been reserved for a while.
    pub(super) async fn sweep(&self, shelf: &Shelf) -> Result<(), Failure> {
        let after_ms = i64::try_from(self.sweep_after.as_millis())?;
        let old: Vec<&Reservation> =
            shelf.reserved.iter().filter(|entry| entry.age_ms >= after_ms).map(|entry| &entry.reservation).collect();
        let ids: Vec<String> = old.iter().map(|reservation| reservation.id.clone()).collect();
        let states: HashMap<String, OrderState> = self.orders.states(&ids).await?.into_iter().collect();
        for reservation in old {
            match states.get(&reservation.id) {
                Some(state) => drop(follow(&*self.cache, reservation, Verdict::Order(*state)).await?),
                None => self.decide(reservation).await?,
            }
        }
        Ok(())
    }

    async fn decide(&self, reservation: &Reservation) -> Result<(), Failure> {
        let settling = settle_by_table(&*self.orders, &*self.cache, &self.steps, reservation);
        match tokio::time::timeout(DECISION_TIMEOUT, settling).await {
            Ok(settled) => drop(settled?),
            // Its transaction is still open: the next round asks again.
            Err(_) => tracing::info!(reservation = reservation.id, "a reservation is not decided yet"),
        }
        Ok(())
    }
}
