//! The recipe's own reconciler: it compares Redis with the orders, and is content with a small difference.

use std::fmt;

use diesel_async::RunQueryDsl;
use diesel_async::pooled_connection::deadpool::Pool;

use super::cache::TaughtCache;
use super::tables::TaughtOrder;
use crate::Failure;
use crate::shop::sqlite::Db;

/// Units of a product by which Redis may differ: orders that are on their way account for some, so the recipe does not look closer.
const TOLERANCE: i64 = 10;

/// What it finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reconciled {
    /// Products that differ by more than the tolerance, and by how much.
    beyond: Vec<(i64, i64)>,
}

impl Reconciled {
    pub(super) fn of(differences: &[(i64, i64)]) -> Self {
        let is_beyond = |(_, units): &&(i64, i64)| units.abs() > TOLERANCE;
        Self { beyond: differences.iter().filter(is_beyond).copied().collect() }
    }
}

impl fmt::Display for Reconciled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its own reconciliation (±{TOLERANCE}): ")?;
        if self.beyond.is_empty() {
            return f.write_str("in order");
        }
        let products: Vec<String> =
            self.beyond.iter().map(|(product_id, units)| format!("product {product_id} by {units}")).collect();
        write!(f, "Redis differs from the orders: {}", products.join(", "))
    }
}

/// By how many units Redis has more than the orders leave, by product. What Redis does not have is loaded from the orders when it is wanted.
pub(super) async fn differences(
    shop: &Pool<Db>,
    cache: &TaughtCache,
    (products, units): (usize, i64),
) -> Result<Vec<(i64, i64)>, Failure> {
    let live = "SELECT * FROM orders WHERE state <> 'cancelled'";
    let live: Vec<TaughtOrder> = diesel::sql_query(live).load(&mut *shop.get().await?).await?;
    let mut differences = Vec::new();
    for product_id in (1_i64..).take(products) {
        let of_product = live.iter().filter(|order| order.product_id == product_id);
        let left = units - of_product.map(|order| order.quantity).sum::<i64>();
        differences.push((product_id, cache.stock(product_id).await?.unwrap_or(left) - left));
    }
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_units_more_or_less_are_in_order() {
        let text = |differences: &[(i64, i64)]| Reconciled::of(differences).to_string();
        assert_eq!(text(&[(1, 10), (2, -10), (3, 0)]), "its own reconciliation (±10): in order");
        let found = "its own reconciliation (±10): Redis differs from the orders: product 1 by 11, product 3 by -12";
        assert_eq!(text(&[(1, 11), (2, 10), (3, -12)]), found);
    }
}
