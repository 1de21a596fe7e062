//! What becomes of a reservation: its row decides, and the cache follows.

use super::orders::{DatabaseError, Orders, Verdict};
use crate::cache::{CacheAway, Reservation, StockCache};
use crate::domain::OrderState;
use crate::steps::{Step, Steps};

/// Why a reservation could not be settled now. It can be settled later.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each has its own")]
pub enum ReleaseError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Cache(#[from] CacheAway),
}

/// Asks the table whether an order stands on a reservation, and gives it back if none does and none can.
///
/// # Errors
/// Returns an error if the database or the cache does not answer. Nothing is lost: call it again at any time.
pub async fn settle_by_table(
    orders: &dyn Orders,
    cache: &dyn StockCache,
    steps: &Steps,
    reservation: &Reservation,
) -> Result<Verdict, ReleaseError> {
    let verdict = orders.decide(reservation).await?;
    if verdict == Verdict::Refused {
        steps.reach(Step::Refused).await;
    }
    follow(cache, reservation, verdict).await?;
    if verdict == Verdict::Refused {
        steps.reach(Step::GivenBack).await;
    }
    Ok(verdict)
}

/// Does in the cache what the table says. Returns whether there was something to do.
pub(crate) async fn follow(
    cache: &dyn StockCache,
    reservation: &Reservation,
    verdict: Verdict,
) -> Result<bool, CacheAway> {
    match verdict {
        Verdict::Order(OrderState::Created) => Ok(false),
        Verdict::Order(OrderState::Paid) => cache.sell(reservation).await,
        Verdict::Order(OrderState::Cancelled | OrderState::Refused) | Verdict::Refused => {
            cache.give_back(reservation).await
        }
    }
}
