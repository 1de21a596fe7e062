//! The shop's transactions and reads, on the database of the parent module.

mod change;
mod consumers;
mod place;
mod reconcile;
pub mod tables;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::pooled_connection::deadpool::{Object, Pool};
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::Outbox;
use diesel_outbox::consumer::RunningConsumer;
use diesel_outbox::transport::KafkaConfig;

use self::tables::{TABLES, products};
use super::Db;
use crate::Failure;
use crate::cache::{Reservation, StockCache};
use crate::domain::{Order, OrderRow, OrderState};
use crate::shop::orders::{DatabaseError, LiveStock, Orders, Payment, Placed, Product, Verdict};
use crate::steps::Steps;

/// The orders in this database.
#[derive(Clone)]
pub struct SqlOrders {
    pool: Pool<Db>,
    outbox: Outbox,
    steps: Steps,
}

impl fmt::Debug for SqlOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlOrders").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl From<diesel::result::Error> for DatabaseError {
    fn from(error: diesel::result::Error) -> Self {
        Self(error.to_string())
    }
}

impl SqlOrders {
    /// Orders over this pool.
    pub fn new(pool: Pool<Db>, outbox: Outbox, steps: Steps) -> Self {
        Self { pool, outbox, steps }
    }

    /// Creates what is missing of the tables, the outbox's and the consumers' included, and the products.
    ///
    /// # Errors
    /// Returns an error if the database refuses.
    pub async fn migrate(&self, prices_cents: &[i64]) -> Result<(), Failure> {
        let mut conn = self.pool.get().await?;
        conn.batch_execute(TABLES).await?;
        self.outbox.migrate_async(&mut conn).await?;
        for consumer in [consumers::closer(KafkaConfig::new("")), consumers::settler(KafkaConfig::new(""))] {
            consumer.migrate_async(&mut conn).await?;
        }
        for (id, price_cents) in (1..).zip(prices_cents) {
            let product = (products::id.eq(id), products::price_cents.eq(price_cents), products::generation.eq(0));
            diesel::insert_into(products::table).values(product).on_conflict_do_nothing().execute(&mut conn).await?;
        }
        Ok(())
    }

    async fn connection(&self) -> Result<Object<Db>, DatabaseError> {
        self.pool.get().await.map_err(|error| DatabaseError(error.to_string()))
    }
}

#[async_trait]
impl Orders for SqlOrders {
    async fn place(&self, order: &Order, generation: i64, payment_term: Duration) -> Result<Placed, DatabaseError> {
        let mut conn = self.connection().await?;
        Ok(place::place(&mut conn, (&self.outbox, &self.steps), order, generation, payment_term).await?)
    }

    async fn pay(&self, order_id: &str) -> Result<Payment, DatabaseError> {
        let mut conn = self.connection().await?;
        Ok(change::pay(&mut conn, (&self.outbox, &self.steps), order_id).await?)
    }

    async fn close(&self, order_id: &str) -> Result<bool, DatabaseError> {
        let (mut conn, of_shop) = (self.connection().await?, (&self.outbox, &self.steps));
        Ok(conn.transaction(async |conn| change::close(conn, of_shop, order_id).await).await?)
    }

    async fn find(&self, order_id: &str) -> Result<Option<OrderRow>, DatabaseError> {
        Ok(place::find(&mut *self.connection().await?, order_id).await?)
    }

    async fn decide(&self, reservation: &Reservation) -> Result<Verdict, DatabaseError> {
        Ok(reconcile::decide(&mut *self.connection().await?, reservation).await?)
    }

    async fn states(&self, reservation_ids: &[String]) -> Result<Vec<(String, OrderState)>, DatabaseError> {
        Ok(reconcile::states(&mut *self.connection().await?, reservation_ids).await?)
    }

    async fn products(&self) -> Result<Vec<Product>, DatabaseError> {
        Ok(reconcile::product_list(&mut *self.connection().await?).await?)
    }

    async fn raise_generation(&self, product_id: i64) -> Result<i64, DatabaseError> {
        Ok(reconcile::raise_generation(&mut *self.connection().await?, product_id).await?)
    }

    async fn live_stock(&self, product_id: i64) -> Result<LiveStock, DatabaseError> {
        Ok(reconcile::live_stock(&mut *self.connection().await?, product_id).await?)
    }

    async fn all(&self) -> Result<Vec<OrderRow>, DatabaseError> {
        Ok(reconcile::all(&mut *self.connection().await?).await?)
    }

    fn close_unpaid(&self, kafka: KafkaConfig) -> Result<RunningConsumer, Failure> {
        consumers::close_unpaid(self, kafka)
    }

    fn settle_cache(&self, kafka: KafkaConfig, cache: Arc<dyn StockCache>) -> Result<RunningConsumer, Failure> {
        consumers::settle_cache(self, kafka, cache)
    }
}
