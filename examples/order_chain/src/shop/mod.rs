//! The shop: takes orders and payments.

mod catalogue;
pub mod orders;
mod place;
#[cfg(feature = "servers")]
pub mod postgres;
pub mod release;
pub mod sqlite;
pub mod web;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::transport::KafkaConfig;
use diesel_outbox::{Limits, Outbox, Topic};

pub use self::catalogue::Catalogue;
use self::orders::{DatabaseError, Orders, Payment};
pub use self::place::{NewOrder, PlaceError, PlacedOrder};
use crate::Failure;
use crate::broker::Brokers;
use crate::cache::StockCache;
use crate::domain::{ORDERS, OrderEvent, OrderRow, PAYMENT_TERMS, PaymentTermOver};
use crate::steps::{Step, Steps};

/// The shop. A clone is cheap.
#[derive(Clone)]
pub struct Shop {
    orders: Arc<dyn Orders>,
    cache: Arc<dyn StockCache>,
    catalogue: Arc<Catalogue>,
    payment_term: Duration,
    steps: Steps,
}

impl fmt::Debug for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shop").field("payment_term", &self.payment_term).finish_non_exhaustive()
    }
}

/// The name of RocketMQ's transport in a relay that has Kafka, too.
pub(crate) const ROCKETMQ: &str = "rocketmq";

/// The shop's outbox.
///
/// # Errors
/// Returns an error if a topic is refused.
pub fn outbox(brokers: Brokers) -> Result<Outbox, Failure> {
    let payment_terms = match brokers {
        Brokers::Mixed => Topic::new(PAYMENT_TERMS).via(ROCKETMQ),
        Brokers::Kafka | Brokers::RocketMq => Topic::new(PAYMENT_TERMS),
    };
    let outbox = Outbox::builder()
        // The messages of an order reach the broker in the order of its transactions, which its row's lock decides.
        .topic(Topic::new(ORDERS).ordered_by_key().lanes(8))
        .topic(payment_terms)
        .message::<OrderEvent>()
        .message::<PaymentTermOver>();
    Ok(outbox.build()?)
}

/// How long a relay keeps what it took.
const LEASE_DURATION: Duration = Duration::from_secs(10);

/// With short times: what a killed process held is taken over within about ten seconds, and not within a minute.
pub(crate) fn relay_limits() -> Limits {
    Limits::default().lane_lease_duration(Duration::from_secs(3)).lease_duration(LEASE_DURATION)
}

/// The relay's producer, which knows soon what became of a message.
pub(crate) fn producer(bootstrap: &str) -> KafkaConfig {
    KafkaConfig::new(bootstrap).set("message.timeout.ms", "4000")
}

impl Shop {
    /// A shop over these orders and this cache.
    pub fn new(
        orders: Arc<dyn Orders>,
        cache: Arc<dyn StockCache>,
        catalogue: Catalogue,
        payment_term: Duration,
        steps: Steps,
    ) -> Self {
        Self { orders, cache, catalogue: Arc::new(catalogue), payment_term, steps }
    }

    /// An order, if there is one.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn find(&self, order_id: &str) -> Result<Option<OrderRow>, DatabaseError> {
        self.orders.find(order_id).await
    }

    /// Pays an order. Repeated, it changes nothing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer: ask again.
    pub async fn pay(&self, order_id: &str) -> Result<Payment, DatabaseError> {
        let payment = self.orders.pay(order_id).await?;
        self.steps.reach(Step::PaymentCommitted).await;
        Ok(payment)
    }
}
