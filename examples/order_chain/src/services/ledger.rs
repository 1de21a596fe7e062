//! What the reconciler reads of the services.

use diesel_outbox::consumer::RunningConsumer;

use super::phase::Phase;
use crate::Failure;
use crate::broker::Broker;

/// What a service knows of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The order.
    pub order_id: String,
    /// The product, the coupon or the customer.
    pub subject_id: i64,
    /// Units, 1, or points.
    pub amount: i64,
    /// How far it is.
    pub phase: Phase,
}

/// A product as the stock service counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockRow {
    /// Its id.
    pub product_id: i64,
    /// Units there have ever been.
    pub total: i64,
    /// Units of no order.
    pub available: i64,
    /// Units of orders that wait for their payment.
    pub locked: i64,
    /// Units of paid orders.
    pub sold: i64,
}

/// The stock service, read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StockReading {
    /// Every product.
    pub rows: Vec<StockRow>,
    /// Every order.
    pub entries: Vec<Entry>,
}

/// The coupon service, read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CouponReading {
    /// Coupons that an order has, with how many have it.
    pub taken: Vec<(i64, i64)>,
    /// Every order with a coupon.
    pub entries: Vec<Entry>,
}

/// The points service, read at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PointsReading {
    /// Customers, with their points.
    pub accounts: Vec<(i64, i64)>,
    /// Every order.
    pub entries: Vec<Entry>,
}

/// The databases of the services. The calls block.
pub trait Ledgers: Send + Sync {
    /// Creates what is missing: tables, products with these units, and this many coupons.
    ///
    /// # Errors
    /// Returns an error if a database refuses.
    fn migrate(&self, units: &[i64], coupons: i64) -> Result<(), Failure>;

    /// The units of each product.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    fn totals(&self) -> Result<Vec<(i64, i64)>, Failure>;

    /// Reads the stock service.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    fn stock(&self) -> Result<StockReading, Failure>;

    /// Reads the coupon service.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    fn coupons(&self) -> Result<CouponReading, Failure>;

    /// Reads the points service.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    fn points(&self) -> Result<PointsReading, Failure>;

    /// Records that a service could not process, with the reason.
    ///
    /// # Errors
    /// Returns an error if a database does not answer.
    fn parked(&self) -> Result<Vec<String>, Failure>;

    /// Starts the consumer of a service.
    ///
    /// # Errors
    /// Returns an error if it cannot start.
    fn start(&self, service: Service, broker: Broker) -> Result<RunningConsumer, Failure>;
}

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Locks, sells and releases stock.
    Stock,
    /// Redeems coupons.
    Coupon,
    /// Books points.
    Points,
}

impl Service {
    /// Every service.
    pub const ALL: [Self; 3] = [Self::Stock, Self::Coupon, Self::Points];

    /// Its name, which is its group's and its database's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Coupon => "coupon",
            Self::Points => "points",
        }
    }
}
