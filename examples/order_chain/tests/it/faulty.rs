//! Orders in a database that leaves the shop, or the reconciler, in doubt, once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::consumer::RunningConsumer;
use order_chain::Failure;
use order_chain::broker::Broker;
use order_chain::cache::{Reservation, StockCache};
use order_chain::domain::{Order, OrderRow, OrderState};
use order_chain::shop::orders::{DatabaseError, LiveStock, Orders, Payment, Placed, Product, Verdict};

/// When the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The transaction is committed, and the answer is lost.
    AfterCommit,
    /// Nothing happened.
    BeforeBegin,
    /// Nothing happened, and it cannot be asked afterwards.
    Away,
    /// The products' generations are read right before another reconciler raises them.
    OldGeneration,
}

pub(crate) struct FaultyOrders {
    inner: Arc<dyn Orders>,
    doubt: Mutex<Option<Doubt>>,
    is_away: AtomicBool,
}

impl FaultyOrders {
    pub(crate) fn new(inner: Arc<dyn Orders>, doubt: Doubt) -> Self {
        Self { inner, doubt: Mutex::new(Some(doubt)), is_away: AtomicBool::new(false) }
    }
}

fn lost<T>() -> Result<T, DatabaseError> {
    Err(DatabaseError("the connection is lost".to_owned()))
}

#[async_trait]
impl Orders for FaultyOrders {
    async fn place(&self, order: &Order, generation: i64, payment_term: Duration) -> Result<Placed, DatabaseError> {
        let doubt = self.doubt.lock().expect("no panic").take();
        match doubt {
            None | Some(Doubt::OldGeneration) => self.inner.place(order, generation, payment_term).await,
            Some(Doubt::AfterCommit) => {
                let placed = self.inner.place(order, generation, payment_term).await?;
                assert_eq!(placed, Placed::New);
                lost()
            }
            Some(Doubt::BeforeBegin) => lost(),
            Some(Doubt::Away) => {
                self.is_away.store(true, Ordering::Relaxed);
                lost()
            }
        }
    }

    async fn decide(&self, reservation: &Reservation) -> Result<Verdict, DatabaseError> {
        match self.is_away.load(Ordering::Relaxed) {
            true => lost(),
            false => self.inner.decide(reservation).await,
        }
    }

    async fn pay(&self, order_id: &str) -> Result<Payment, DatabaseError> {
        self.inner.pay(order_id).await
    }

    async fn close(&self, order_id: &str) -> Result<bool, DatabaseError> {
        self.inner.close(order_id).await
    }

    async fn find(&self, order_id: &str) -> Result<Option<OrderRow>, DatabaseError> {
        self.inner.find(order_id).await
    }

    async fn states(&self, reservation_ids: &[String]) -> Result<Vec<(String, OrderState)>, DatabaseError> {
        self.inner.states(reservation_ids).await
    }

    async fn now_ms(&self) -> Result<i64, DatabaseError> {
        self.inner.now_ms().await
    }

    async fn created_at_ms(&self, order_ids: &[String]) -> Result<Vec<(String, i64)>, DatabaseError> {
        self.inner.created_at_ms(order_ids).await
    }

    async fn overdue(&self) -> Result<Vec<(String, i64)>, DatabaseError> {
        self.inner.overdue().await
    }

    async fn parked(&self) -> Result<Vec<String>, DatabaseError> {
        self.inner.parked().await
    }

    async fn products(&self) -> Result<Vec<Product>, DatabaseError> {
        let mut products = self.inner.products().await?;
        let mut doubt = self.doubt.lock().expect("no panic");
        if *doubt == Some(Doubt::OldGeneration) {
            *doubt = None;
            products.iter_mut().for_each(|product| product.generation -= 1);
        }
        Ok(products)
    }

    async fn raise_generation(&self, product_id: i64) -> Result<i64, DatabaseError> {
        self.inner.raise_generation(product_id).await
    }

    async fn live_stock(&self, product_id: i64) -> Result<LiveStock, DatabaseError> {
        self.inner.live_stock(product_id).await
    }

    async fn all(&self) -> Result<Vec<OrderRow>, DatabaseError> {
        self.inner.all().await
    }

    fn close_unpaid(&self, broker: Broker) -> Result<RunningConsumer, Failure> {
        self.inner.close_unpaid(broker)
    }

    fn settle_cache(&self, broker: Broker, cache: Arc<dyn StockCache>) -> Result<RunningConsumer, Failure> {
        self.inner.settle_cache(broker, cache)
    }
}
