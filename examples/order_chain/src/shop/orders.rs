//! The shop's orders: each call is one transaction, or one read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::consumer::RunningConsumer;

use crate::Failure;
use crate::broker::Broker;
use crate::cache::{Reservation, StockCache};
use crate::domain::{Order, OrderRow, OrderState};

/// The database refused, or did not answer. Of a COMMIT it is not known whether it happened.
#[derive(Debug, thiserror::Error)]
#[error("the shop's database: {0}")]
pub struct DatabaseError(pub String);

impl From<diesel::result::Error> for DatabaseError {
    fn from(error: diesel::result::Error) -> Self {
        Self(error.to_string())
    }
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// It is committed, with its messages.
    New,
    /// The client's request was an order before.
    Before(OrderRow),
    /// The deduction is of a cache that was lost meanwhile.
    StaleGeneration,
    /// The reservation was given back before the order was written.
    Refused,
    /// Another live order has the coupon.
    CouponInUse,
}

/// What the table says of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// An order stands on it, and is in this state.
    Order(OrderState),
    /// None does, and none can any more.
    Refused,
}

/// What came of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payment {
    /// The order is paid, now or before.
    Paid(OrderRow),
    /// It was closed before.
    Closed,
    /// There is no such order.
    NoOrder,
}

/// The stock that live orders have of a product.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveStock {
    /// The reservations of orders that wait for their payment.
    pub reserved: Vec<Reservation>,
    /// Units of paid orders.
    pub sold: i64,
}

/// A product as the shop knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Its id.
    pub id: i64,
    /// The price of a unit.
    pub price_cents: i64,
    /// The generation of its stock in the cache.
    pub generation: i64,
}

/// The orders in the shop's database.
#[async_trait]
pub trait Orders: Send + Sync {
    /// Writes an order with its messages: both or neither.
    async fn place(&self, order: &Order, generation: i64, payment_term: Duration) -> Result<Placed, DatabaseError>;

    /// Marks an order as paid, unless it was closed. Of a payment and a close at the same time one wins.
    async fn pay(&self, order_id: &str) -> Result<Payment, DatabaseError>;

    /// Closes an order, unless it was paid. Returns whether this call did.
    async fn close(&self, order_id: &str) -> Result<bool, DatabaseError>;

    /// An order, if there is one.
    async fn find(&self, order_id: &str) -> Result<Option<OrderRow>, DatabaseError>;

    /// Decides for good whether an order stands on a reservation.
    ///
    /// If there is none, it commits a row that says so, under the same unique key as the order's: of a request that is still in its
    /// transaction and of this row one wins. The row waits for such a transaction to end.
    async fn decide(&self, reservation: &Reservation) -> Result<Verdict, DatabaseError>;

    /// The states of those reservations that have a row.
    async fn states(&self, reservation_ids: &[String]) -> Result<Vec<(String, OrderState)>, DatabaseError>;

    /// The database's time.
    async fn now_ms(&self) -> Result<i64, DatabaseError>;

    /// When those orders were created that are there, by the database's clock.
    async fn created_at_ms(&self, order_ids: &[String]) -> Result<Vec<(String, i64)>, DatabaseError>;

    /// Orders that still wait for their payment after the end of its term, each with when that was, by the database's clock.
    async fn overdue(&self) -> Result<Vec<(String, i64)>, DatabaseError>;

    /// Records that the shop's own consumers could not process, with the reason.
    async fn parked(&self) -> Result<Vec<String>, DatabaseError>;

    /// The products.
    async fn products(&self) -> Result<Vec<Product>, DatabaseError>;

    /// Begins the next generation of a product: what was deducted in earlier ones cannot become an order any more.
    async fn raise_generation(&self, product_id: i64) -> Result<i64, DatabaseError>;

    /// What live orders have of a product, read at one moment.
    async fn live_stock(&self, product_id: i64) -> Result<LiveStock, DatabaseError>;

    /// Every order.
    async fn all(&self) -> Result<Vec<OrderRow>, DatabaseError>;

    /// Starts the consumer that closes orders whose payment term is over.
    fn close_unpaid(&self, broker: Broker) -> Result<RunningConsumer, Failure>;

    /// Starts the consumer that gives the stock of closed orders back in the cache, and counts that of paid ones as sold.
    fn settle_cache(&self, broker: Broker, cache: Arc<dyn StockCache>) -> Result<RunningConsumer, Failure>;
}
