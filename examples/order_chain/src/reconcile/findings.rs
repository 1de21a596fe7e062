//! What a comparison found.

use std::fmt;

use crate::domain::OrderRow;
use crate::services::phase::Phase;

/// The stock of one product, over all places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockSum {
    /// Which product.
    pub product_id: i64,
    /// In the cache.
    pub available: i64,
    /// Deducted in the cache, and not known to the stock service.
    pub reserved: i64,
    /// Of orders that wait for their payment, in the stock service.
    pub locked: i64,
    /// Of paid orders, in the stock service.
    pub sold: i64,
    /// In the stock service.
    pub total: i64,
}

impl StockSum {
    /// By how much the places differ. While orders go on that is what moved between the reads; at rest it is 0.
    pub fn difference(&self) -> i64 {
        self.available + self.reserved + self.locked + self.sold - self.total
    }
}

/// Something that is on its way, and will be right without anybody's help.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts of Display say what they are")]
pub enum Moving {
    Loading { product_id: i64 },
    Undecided { reservation_id: String, since_ms: i64 },
    Unsettled { order_id: String, since_ms: i64 },
    Overdue { order_id: String, since_ms: i64 },
    Behind { service: &'static str, order_id: String, since_ms: i64 },
}

impl Moving {
    /// Since when it lags behind, by the shop's database. For a reservation without an order: since it was made. For one whose order has
    /// ended: since that end. For an overdue order: since the end of its payment term. For a service: since the first change that it
    /// lacks. `None` if that is not known.
    pub fn since_ms(&self) -> Option<i64> {
        match self {
            Self::Loading { .. } => None,
            Self::Undecided { since_ms, .. }
            | Self::Unsettled { since_ms, .. }
            | Self::Overdue { since_ms, .. }
            | Self::Behind { since_ms, .. } => Some(*since_ms),
        }
    }
}

impl fmt::Display for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loading { product_id } => write!(f, "the cache has to load product {product_id}"),
            Self::Undecided { reservation_id, .. } => {
                write!(f, "reservation {reservation_id} has no order yet, and is not given back")
            }
            Self::Unsettled { order_id, .. } => {
                write!(f, "order {order_id} has ended, and the cache still reserves its units")
            }
            Self::Overdue { order_id, .. } => {
                write!(f, "the payment term of order {order_id} is over, and it is neither paid nor closed")
            }
            Self::Behind { service, order_id, .. } => {
                write!(f, "{service} does not know the state of order {order_id}")
            }
        }
    }
}

/// Something that no message on its way explains.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts of Display say what they are")]
pub enum Wrong {
    Oversold { product_id: i64, available: i64 },
    ShelfSum { product_id: i64, sum: i64, total: i64 },
    StockSum { product_id: i64, what: &'static str, counted: i64, of_orders: i64 },
    LostReservation { order_id: String, product_id: i64 },
    Contradiction { service: &'static str, order_id: String, phase: Phase },
    Unfitting { service: &'static str, order_id: String },
    CouponDoubled { coupon_id: i64, orders: usize },
    CouponCount { coupon_id: i64, counted: i64, of_orders: i64 },
    Points { customer_id: i64, booked: i64, of_orders: i64 },
    Parked { record: String },
}

impl Wrong {
    pub(super) fn lost(row: OrderRow) -> Self {
        Self::LostReservation { order_id: row.order.id, product_id: row.order.product_id }
    }

    pub(super) fn parked(record: String) -> Self {
        Self::Parked { record }
    }

    /// Whether a service has booked or counted more than its orders make.
    pub(crate) fn is_of_processing_twice(&self) -> bool {
        match self {
            Self::Points { booked, of_orders, .. } => booked > of_orders,
            Self::StockSum { counted, of_orders, .. } | Self::CouponCount { counted, of_orders, .. } => {
                counted > of_orders
            }
            _ => false,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversold { product_id, available } => {
                write!(f, "product {product_id} is oversold: {available} units are available")
            }
            Self::ShelfSum { product_id, sum, total } => {
                write!(f, "the cache has {sum} units of product {product_id} in all, and there are {total}")
            }
            Self::StockSum { product_id, what, counted, of_orders } => {
                write!(
                    f,
                    "the stock service counts {counted} {what} of product {product_id}, and its orders have {of_orders}"
                )
            }
            Self::LostReservation { order_id, product_id } => {
                write!(f, "the cache has lost the reservation of order {order_id}, of product {product_id}")
            }
            Self::Contradiction { service, order_id, phase } => {
                write!(f, "{service} has order {order_id} as {phase:?}, which it is not")
            }
            Self::Unfitting { service, order_id } => write!(f, "{service} has order {order_id} with other figures"),
            Self::CouponDoubled { coupon_id, orders } => {
                write!(f, "coupon {coupon_id} was redeemed by {orders} orders")
            }
            Self::CouponCount { coupon_id, counted, of_orders } => {
                write!(f, "the coupon service counts {counted} orders with coupon {coupon_id}, and {of_orders} have it")
            }
            Self::Points { customer_id, booked, of_orders } => {
                write!(f, "customer {customer_id} has {booked} points, and paid orders for {of_orders}")
            }
            Self::Parked { record } => write!(f, "a record was set aside: {record}"),
        }
    }
}

/// What a comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The stock, by product.
    pub sums: Vec<StockSum>,
    /// What is on its way.
    pub moving: Vec<Moving>,
    /// What is wrong.
    pub wrong: Vec<Wrong>,
}

impl Findings {
    /// Whether every place agrees, and nothing is on its way.
    pub fn is_equal(&self) -> bool {
        self.moving.is_empty() && self.wrong.is_empty() && self.sums.iter().all(|sum| sum.difference() == 0)
    }

    /// Whether nothing is wrong, and nothing is on its way since this time of the shop's database or earlier. What is on its way since a time
    /// that is not known counts as earlier.
    pub fn has_settled(&self, until_ms: i64) -> bool {
        let is_newer = |moving: &Moving| moving.since_ms().is_some_and(|since_ms| since_ms > until_ms);
        self.wrong.is_empty() && self.moving.iter().all(is_newer)
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>8} {:>10} {:>9} {:>8} {:>8} {:>8} {:>11}",
            "product", "available", "reserved", "locked", "sold", "total", "difference"
        )?;
        for sum in &self.sums {
            let StockSum { product_id, available, reserved, locked, sold, total } = sum;
            let difference = sum.difference();
            writeln!(
                f,
                "{product_id:>8} {available:>10} {reserved:>9} {locked:>8} {sold:>8} {total:>8} {difference:>11}"
            )?;
        }
        writeln!(f, "on its way: {}, wrong: {}", self.moving.len(), self.wrong.len())?;
        for wrong in &self.wrong {
            writeln!(f, "  WRONG: {wrong}")?;
        }
        Ok(())
    }
}
