//! The shop's transactions and reads, on the database of the parent module.

mod change;
mod consumers;
mod lent;
mod place;
mod reconcile;
pub(super) mod tables;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::Outbox;
use diesel_outbox::consumer::{KafkaConsumer, RunningConsumer};
use diesel_outbox::transport::KafkaConfig;

use self::lent::Lent;
use self::tables::{TABLES, products};
use super::Db;
use crate::Failure;
use crate::broker::Broker;
use crate::cache::{Reservation, StockCache};
use crate::domain::{Order, OrderRow, OrderState};
use crate::shop::orders::{DatabaseError, LiveStock, Orders, Payment, Placed, Product, Verdict};
use crate::steps::Steps;

/// The orders in this database.
#[derive(Clone)]
pub struct SqlOrders {
    pool: Pool<Db>,
    /// `None` in the shop without messages that this one is compared with.
    outbox: Option<Outbox>,
    steps: Steps,
}

impl fmt::Debug for SqlOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlOrders").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl SqlOrders {
    /// Orders over this pool.
    pub fn new(pool: Pool<Db>, outbox: Outbox, steps: Steps) -> Self {
        Self { pool, outbox: Some(outbox), steps }
    }

    /// Orders that nobody is told of, to compare with.
    pub fn without_messages(pool: Pool<Db>) -> Self {
        Self { pool, outbox: None, steps: Steps::default() }
    }

    /// Creates what is missing of the tables, the outbox's and the consumers' included, and the products.
    ///
    /// # Errors
    /// Returns an error if the database refuses.
    pub async fn migrate(&self, prices_cents: &[i64]) -> Result<(), Failure> {
        let mut conn = self.pool.get().await?;
        conn.batch_execute(TABLES).await?;
        if let Some(outbox) = &self.outbox {
            outbox.migrate_async(&mut conn).await?;
        }
        for group in consumers::GROUPS {
            // The tables are the same for each broker.
            KafkaConsumer::new(KafkaConfig::new(""), group).migrate_async(&mut conn).await?;
        }
        for (id, price_cents) in (1_i64..).zip(prices_cents) {
            let product = (products::id.eq(id), products::price_cents.eq(price_cents), products::generation.eq(0_i64));
            diesel::insert_into(products::table).values(product).on_conflict_do_nothing().execute(&mut conn).await?;
        }
        Ok(())
    }

    async fn connection(&self) -> Result<Lent, DatabaseError> {
        self.pool.get().await.map(Lent::new).map_err(|error| DatabaseError(error.to_string()))
    }
}

#[async_trait]
impl Orders for SqlOrders {
    async fn place(&self, order: &Order, generation: i64, payment_term: Duration) -> Result<Placed, DatabaseError> {
        let mut conn = self.connection().await?;
        let placed =
            place::place(&mut conn, (self.outbox.as_ref(), &self.steps), order, generation, payment_term).await;
        Ok(conn.done(placed)?)
    }

    async fn pay(&self, order_id: &str) -> Result<Payment, DatabaseError> {
        let mut conn = self.connection().await?;
        let payment = change::pay(&mut conn, (self.outbox.as_ref(), &self.steps), order_id).await;
        Ok(conn.done(payment)?)
    }

    async fn close(&self, order_id: &str) -> Result<bool, DatabaseError> {
        let (mut conn, of_shop) = (self.connection().await?, (self.outbox.as_ref(), &self.steps));
        let closed = (*conn).transaction(async |conn| change::close(conn, of_shop, order_id).await).await;
        Ok(conn.done(closed)?)
    }

    async fn find(&self, order_id: &str) -> Result<Option<OrderRow>, DatabaseError> {
        let mut conn = self.connection().await?;
        let found = place::find(&mut conn, order_id).await;
        Ok(conn.done(found)?)
    }

    async fn decide(&self, reservation: &Reservation) -> Result<Verdict, DatabaseError> {
        let mut conn = self.connection().await?;
        let verdict = reconcile::decide(&mut conn, reservation).await;
        Ok(conn.done(verdict)?)
    }

    async fn states(&self, reservation_ids: &[String]) -> Result<Vec<(String, OrderState)>, DatabaseError> {
        let mut conn = self.connection().await?;
        let states = reconcile::states(&mut conn, reservation_ids).await;
        Ok(conn.done(states)?)
    }

    async fn now_ms(&self) -> Result<i64, DatabaseError> {
        let mut conn = self.connection().await?;
        let now_ms = reconcile::database_now_ms(&mut conn).await;
        Ok(conn.done(now_ms)?)
    }

    async fn created_at_ms(&self, order_ids: &[String]) -> Result<Vec<(String, i64)>, DatabaseError> {
        let mut conn = self.connection().await?;
        let created = reconcile::created_at_ms(&mut conn, order_ids).await;
        Ok(conn.done(created)?)
    }

    async fn overdue(&self) -> Result<Vec<(String, i64)>, DatabaseError> {
        let mut conn = self.connection().await?;
        let overdue = reconcile::overdue(&mut conn).await;
        Ok(conn.done(overdue)?)
    }

    async fn parked(&self) -> Result<Vec<String>, DatabaseError> {
        let mut found = Vec::new();
        for group in consumers::GROUPS {
            let mut conn = self.connection().await?;
            let parked = reconcile::parked(&mut conn, group).await;
            found.extend(conn.done(parked)?);
        }
        Ok(found)
    }

    async fn products(&self) -> Result<Vec<Product>, DatabaseError> {
        let mut conn = self.connection().await?;
        let products = reconcile::product_list(&mut conn).await;
        Ok(conn.done(products)?)
    }

    async fn raise_generation(&self, product_id: i64) -> Result<i64, DatabaseError> {
        let mut conn = self.connection().await?;
        let generation = reconcile::raise_generation(&mut conn, product_id).await;
        Ok(conn.done(generation)?)
    }

    async fn live_stock(&self, product_id: i64) -> Result<LiveStock, DatabaseError> {
        let mut conn = self.connection().await?;
        let live = reconcile::live_stock(&mut conn, product_id).await;
        Ok(conn.done(live)?)
    }

    async fn all(&self) -> Result<Vec<OrderRow>, DatabaseError> {
        let mut conn = self.connection().await?;
        let rows = reconcile::all(&mut conn).await;
        Ok(conn.done(rows)?)
    }

    fn close_unpaid(&self, broker: Broker) -> Result<RunningConsumer, Failure> {
        consumers::close_unpaid(self, broker)
    }

    fn settle_cache(&self, broker: Broker, cache: Arc<dyn StockCache>) -> Result<RunningConsumer, Failure> {
        consumers::settle_cache(self, broker, cache)
    }
}
