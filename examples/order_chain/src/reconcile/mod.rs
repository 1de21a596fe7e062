//! The reconciler: compares every place where an order leaves a trace, and puts right what a death left behind.

mod compare;
mod findings;
mod reading;
mod rebuild;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use self::findings::{Findings, Moving, StockSum, Wrong};
pub use self::reading::Reading;
use crate::Failure;
use crate::cache::StockCache;
use crate::services::ledger::Ledgers;
use crate::shop::orders::Orders;
use crate::steps::Steps;

/// Rounds for one comparison, which reads every order.
const CHECK_EVERY: u64 = 30;

/// The reconciler. Several may run at a time, and each may die at any step.
#[derive(Clone)]
pub struct Reconciler {
    orders: Arc<dyn Orders>,
    cache: Arc<dyn StockCache>,
    ledgers: Arc<dyn Ledgers>,
    steps: Steps,
    /// A younger reservation is likely in a request that still runs. It is only a matter of effort: the table decides.
    sweep_after: Duration,
    /// Products whose stock in the cache proved to be incomplete.
    broken: Arc<Mutex<BTreeSet<i64>>>,
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciler").field("sweep_after", &self.sweep_after).finish_non_exhaustive()
    }
}

impl Reconciler {
    /// A reconciler over all of it.
    pub fn new(
        orders: Arc<dyn Orders>,
        cache: Arc<dyn StockCache>,
        ledgers: Arc<dyn Ledgers>,
        steps: Steps,
        sweep_after: Duration,
    ) -> Self {
        Self { orders, cache, ledgers, steps, sweep_after, broken: Arc::default() }
    }

    /// One round: loads the products that the cache lacks, and settles reservations whose orders are not, or not any more.
    ///
    /// # Errors
    /// Returns an error if something does not answer. The next round goes on.
    pub async fn round(&self) -> Result<(), Failure> {
        for product in self.orders.products().await? {
            let shelf = self.cache.read(product.id).await?;
            let is_broken = self.broken().remove(&product.id);
            match shelf {
                Some(shelf) if shelf.generation == product.generation && !is_broken => self.sweep(&shelf).await?,
                // The shelf was read long after the generations. If another reconciler has raised this one meanwhile, the shelf is the one
                // that it loads: with a rebuild of it, two reconcilers would undo each other's work for ever.
                _ if self.generation(product.id).await? != Some(product.generation) => {}
                _ => self.rebuild(product.id).await?,
            }
        }
        Ok(())
    }

    async fn generation(&self, product_id: i64) -> Result<Option<i64>, Failure> {
        let products = self.orders.products().await?;
        Ok(products.into_iter().find(|product| product.id == product_id).map(|product| product.generation))
    }

    /// Compares everything. What it finds wrong in the cache, the next round loads again.
    ///
    /// # Errors
    /// Returns an error if something does not answer.
    pub async fn check(&self) -> Result<Findings, Failure> {
        let reading = Reading::take(&*self.orders, &*self.cache, &self.ledgers).await?;
        let mut findings = compare::compare(&reading);
        let lost = self.confirm_lost(&reading).await?;
        self.broken().extend(lost.iter().map(|row| row.order.product_id));
        findings.wrong.extend(lost.into_iter().map(Wrong::lost));
        findings.wrong.extend(self.parked().await?.into_iter().map(Wrong::parked));
        Ok(findings)
    }

    /// A round, and now and then a comparison, which finds what the cache has lost without a restart.
    ///
    /// # Errors
    /// Returns an error if something does not answer. The next one goes on.
    pub async fn tick(&self, number: u64) -> Result<(), Failure> {
        self.round().await?;
        if number.is_multiple_of(CHECK_EVERY) {
            for wrong in self.check().await?.wrong {
                tracing::warn!(%wrong, "the reconciler found a difference");
            }
        }
        Ok(())
    }

    /// Ticks until it is dropped.
    pub async fn run(&self, pause: Duration) {
        for number in 1.. {
            if let Err(error) = self.tick(number).await {
                tracing::info!(%error, "a round of the reconciler did not end");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// What any consumer has set aside: a service's, or one of the shop's own.
    async fn parked(&self) -> Result<Vec<String>, Failure> {
        let ledgers = Arc::clone(&self.ledgers);
        let mut parked = tokio::task::spawn_blocking(move || ledgers.parked()).await??;
        parked.extend(self.orders.parked().await?);
        Ok(parked)
    }

    fn broken(&self) -> std::sync::MutexGuard<'_, BTreeSet<i64>> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
