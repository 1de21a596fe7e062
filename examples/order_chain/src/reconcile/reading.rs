//! What is compared, read in an order that makes it comparable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Reconciler;
use crate::Failure;
use crate::cache::{Shelf, StockCache};
use crate::domain::{OrderRow, OrderState};
use crate::services::ledger::{CouponReading, Entry, Ledgers, PointsReading, StockReading};
use crate::shop::orders::Orders;

/// Everything, read one after the other while orders go on.
///
/// The orders are read last. A service learns of a change after the order's row has it, so what was read of a service can be behind the
/// row, and never ahead of it.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The cache, by product; without those that have to be loaded.
    pub shelves: BTreeMap<i64, Shelf>,
    /// The stock service.
    pub stock: StockReading,
    /// The coupon service.
    pub coupons: CouponReading,
    /// The points service.
    pub points: PointsReading,
    /// Every order.
    pub orders: Vec<OrderRow>,
    /// The shop's database's time before anything was read.
    pub now_ms: i64,
    /// Orders that waited for their payment after the end of its term, each with when that was.
    pub overdue: Vec<(String, i64)>,
    /// When those orders were created of which a service lacks more than one change.
    pub created_at_ms: BTreeMap<String, i64>,
}

impl Reading {
    pub(super) async fn take(
        orders: &dyn Orders,
        cache: &dyn StockCache,
        ledgers: &Arc<dyn Ledgers>,
    ) -> Result<Self, Failure> {
        let now_ms = orders.now_ms().await?;
        let mut shelves = BTreeMap::new();
        for product in orders.products().await? {
            let shelf = cache.read(product.id).await?;
            shelves
                .extend(shelf.filter(|shelf| shelf.generation == product.generation).map(|shelf| (product.id, shelf)));
        }
        let ledgers = Arc::clone(ledgers);
        let read = move || Ok::<_, Failure>((ledgers.stock()?, ledgers.coupons()?, ledgers.points()?));
        let (stock, coupons, points) = tokio::task::spawn_blocking(read).await??;
        let overdue = orders.overdue().await?;
        let rows = orders.all().await?;
        let mut reading =
            Self { shelves, stock, coupons, points, orders: rows, now_ms, overdue, created_at_ms: BTreeMap::new() };
        let unheard = reading.ended_unheard();
        if !unheard.is_empty() {
            reading.created_at_ms = orders.created_at_ms(&unheard).await?.into_iter().collect();
        }
        Ok(reading)
    }

    /// Orders that have ended and that some service has not even heard of. Their last change is not the first one that it lacks.
    pub(super) fn ended_unheard(&self) -> Vec<String> {
        let (stock, coupons, points) =
            (ids(&self.stock.entries), ids(&self.coupons.entries), ids(&self.points.entries));
        let is_unheard = |row: &&OrderRow| {
            let id = row.order.id.as_str();
            !stock.contains(id) || !points.contains(id) || (row.order.coupon_id.is_some() && !coupons.contains(id))
        };
        let ended = self.orders.iter().filter(|row| row.state != OrderState::Created);
        ended.filter(is_unheard).map(|row| row.order.id.clone()).collect()
    }

    /// Orders that wait for their payment, and whose reservation is not in a loaded shelf.
    pub(super) fn without_reservation(&self) -> impl Iterator<Item = &OrderRow> {
        let entries = self.shelves.values().flat_map(|shelf| &shelf.reserved);
        let reserved: BTreeSet<&str> = entries.map(|entry| entry.reservation.id.as_str()).collect();
        let is_loaded = |row: &&OrderRow| self.shelves.contains_key(&row.order.product_id);
        let created = self.orders.iter().filter(|row| row.state == OrderState::Created).filter(is_loaded);
        created.filter(move |row| !reserved.contains(row.order.reservation_id.as_str()))
    }
}

fn ids(entries: &[Entry]) -> BTreeSet<&str> {
    entries.iter().map(|entry| entry.order_id.as_str()).collect()
}

impl Reconciler {
    /// Of the orders without a reservation those whose reservation the cache has lost.
    ///
    /// An order may be younger than what was read of the cache, so the cache is read again; and it may have ended meanwhile, so then the
    /// order is read again.
    pub(super) async fn confirm_lost(&self, reading: &Reading) -> Result<Vec<OrderRow>, Failure> {
        let suspects: Vec<&OrderRow> = reading.without_reservation().collect();
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let mut shelves = BTreeMap::new();
        for product_id in suspects.iter().map(|row| row.order.product_id).collect::<BTreeSet<_>>() {
            let shelf = self.cache.read(product_id).await?;
            // One that was loaded meanwhile is compared the next time.
            let is_same = |shelf: &Shelf| {
                reading.shelves.get(&product_id).is_some_and(|before| before.generation == shelf.generation)
            };
            shelves.extend(shelf.filter(is_same).map(|shelf| (product_id, shelf)));
        }
        let mut lost = Vec::new();
        for suspect in suspects {
            let Some(shelf) = shelves.get(&suspect.order.product_id) else { continue };
            if shelf.reserved.iter().any(|entry| entry.reservation.id == suspect.order.reservation_id) {
                continue;
            }
            let now = self.orders.find(&suspect.order.id).await?;
            lost.extend(now.filter(|row| row.state == OrderState::Created));
        }
        Ok(lost)
    }
}
