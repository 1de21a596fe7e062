//! Loads a product's stock into the cache from the databases, while orders go on.

use std::sync::Arc;

use super::Reconciler;
use crate::Failure;
use crate::cache::Load;
use crate::steps::Step;

impl Reconciler {
    /// Loads one product.
    ///
    /// First the generation is raised. That waits for orders that are being committed, and lets no other order stand on an earlier
    /// deduction. From then on the live orders of the product can only become fewer, until the load is done. One that ends in between is
    /// loaded as reserved, and the next sweep settles it.
    pub(super) async fn rebuild(&self, product_id: i64) -> Result<(), Failure> {
        self.cache.unload(product_id).await?;
        let generation = self.orders.raise_generation(product_id).await?;
        self.steps.reach(Step::GenerationRaised).await;
        let live = self.orders.live_stock(product_id).await?;
        let total = self.total(product_id).await?;
        self.steps.reach(Step::LiveOrdersRead).await;
        let reserved: i64 = live.reserved.iter().map(|reservation| reservation.quantity).sum();
        let available = total - live.sold - reserved;
        let load = Load { product_id, generation, available, sold: live.sold, reserved: live.reserved };
        let is_loaded = self.cache.load(&load).await?;
        self.steps.reach(Step::Loaded).await;
        tracing::info!(product_id, generation, available, is_loaded, "the stock was loaded into the cache");
        Ok(())
    }

    /// The units that there have ever been, which the stock service knows.
    async fn total(&self, product_id: i64) -> Result<i64, Failure> {
        let ledgers = Arc::clone(&self.ledgers);
        let totals = tokio::task::spawn_blocking(move || ledgers.totals()).await??;
        let total = totals.into_iter().find(|(id, _)| *id == product_id);
        total.map(|(_, total)| total).ok_or_else(|| format!("the stock service has no product {product_id}").into())
    }
}
