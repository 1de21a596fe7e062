//! What can be ordered, in memory: it does not change while the shop runs.

use std::collections::BTreeMap;

use super::orders::Product;

/// Products with their prices, and the coupons that were issued.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    prices_cents: BTreeMap<i64, i64>,
    coupons: i64,
}

impl Catalogue {
    /// These products, and the coupons from 1 to `coupons`.
    pub fn new(products: &[Product], coupons: i64) -> Self {
        let prices_cents = products.iter().map(|product| (product.id, product.price_cents)).collect();
        Self { prices_cents, coupons }
    }

    /// The price of a unit, if there is such a product.
    pub fn price_cents(&self, product_id: i64) -> Option<i64> {
        self.prices_cents.get(&product_id).copied()
    }

    /// Whether the coupon was issued.
    pub fn has_coupon(&self, coupon_id: i64) -> bool {
        (1..=self.coupons).contains(&coupon_id)
    }
}
