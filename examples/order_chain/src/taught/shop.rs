//! The shop as it is taught.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, RunQueryDsl};
use serde_json::{Value, json};

use super::cache::TaughtCache;
use super::tables::TaughtOrder;
use crate::Failure;
use crate::domain::Order;
use crate::shop::NewOrder;
use crate::shop::sqlite::Db;
use crate::shop::web::{IDEMPOTENCY_KEY, to_its_end};
use crate::steps::{Step, Steps};

/// The shop. A clone is cheap.
#[derive(Clone)]
pub(super) struct TaughtShop {
    pub(super) pool: Pool<Db>,
    pub(super) cache: Arc<TaughtCache>,
    pub(super) steps: Steps,
    /// The units of each product, for when the cache has lost them.
    pub(super) units: i64,
}

type Answer = (StatusCode, Json<Value>);

pub(super) fn router(shop: TaughtShop) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(find))
        .route("/orders/{id}/pay", post(pay))
        .with_state(shop)
}

async fn place(State(shop): State<TaughtShop>, headers: HeaderMap, Json(new): Json<NewOrder>) -> Answer {
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    to_its_end(async move { shop.place(&key, &new).await }).await.unwrap_or_else(|error| later(&*error))
}

async fn find(State(shop): State<TaughtShop>, Path(id): Path<String>) -> Answer {
    shop.find(&id).await.unwrap_or_else(|error| later(&*error))
}

async fn pay(State(shop): State<TaughtShop>, Path(id): Path<String>) -> Answer {
    to_its_end(async move { shop.pay(&id).await }).await.unwrap_or_else(|error| later(&*error))
}

fn later(error: &dyn std::error::Error) -> Answer {
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": error.to_string() })))
}

impl TaughtShop {
    async fn place(&self, key: &str, new: &NewOrder) -> Result<Answer, Failure> {
        self.steps.reach(Step::Asked).await;
        if !self.cache.set_key(key).await? {
            return Ok((StatusCode::CONFLICT, Json(json!({ "error": "do not repeat your request" }))));
        }
        let available = self.available(new.product_id).await?;
        if available < new.quantity {
            self.cache.delete_key(key).await?;
            return Ok((StatusCode::CONFLICT, Json(json!({ "error": "sold out" }))));
        }
        self.cache.add(new.product_id, -new.quantity).await?;
        self.steps.reach(Step::Deducted).await;
        let id = Order::id_of(key);
        if let Err(error) = self.write(&id, new).await {
            self.steps.reach(Step::TransactionFailed).await;
            self.cache.add(new.product_id, new.quantity).await?;
            self.cache.delete_key(key).await?;
            return Err(error);
        }
        self.steps.reach(Step::Committed).await;
        Ok((StatusCode::CREATED, Json(json!({ "id": id }))))
    }

    async fn available(&self, product_id: i64) -> Result<i64, Failure> {
        if let Some(available) = self.cache.stock(product_id).await? {
            return Ok(available);
        }
        // What the orders have is subtracted, and those that are being written are not.
        let sql = "SELECT * FROM orders WHERE product_id = ? AND state <> 'cancelled'";
        let mut conn = self.pool.get().await?;
        let orders: Vec<TaughtOrder> = diesel::sql_query(sql).bind::<BigInt, _>(product_id).load(&mut *conn).await?;
        let available = self.units - orders.iter().map(|order| order.quantity).sum::<i64>();
        self.cache.set_stock(product_id, available).await?;
        Ok(available)
    }

    async fn write(&self, id: &str, new: &NewOrder) -> Result<(), Failure> {
        let mut conn = self.pool.get().await?;
        let steps = &self.steps;
        let written: QueryResult<()> = (*conn)
            .transaction(async |conn| {
                let sql =
                    "INSERT INTO orders VALUES (?, 'created', ?, ?, ?, ?, CAST(unixepoch('subsec') * 1000 AS integer))";
                diesel::sql_query(sql)
                    .bind::<Text, _>(id)
                    .bind::<BigInt, _>(new.customer_id)
                    .bind::<BigInt, _>(new.product_id)
                    .bind::<BigInt, _>(new.quantity)
                    .bind::<Nullable<BigInt>, _>(new.coupon_id)
                    .execute(conn)
                    .await?;
                steps.reach(Step::OrderInserted).await;
                message(conn, id, "created").await?;
                steps.reach(Step::Enqueued).await;
                Ok(())
            })
            .await;
        Ok(written?)
    }

    async fn find(&self, id: &str) -> Result<Answer, Failure> {
        Ok(match order(&mut *self.pool.get().await?, id).await? {
            Some(order) => (StatusCode::OK, Json(json!({ "id": id, "state": order.state }))),
            None => (StatusCode::NOT_FOUND, Json(json!({ "error": "there is no such order" }))),
        })
    }

    async fn pay(&self, id: &str) -> Result<Answer, Failure> {
        let mut conn = self.pool.get().await?;
        match order(&mut conn, id).await?.as_ref().map(|order| order.state.as_str()) {
            Some("created") => {}
            Some("paid") => return Ok((StatusCode::OK, Json(json!({ "id": id })))),
            _ => return Ok((StatusCode::CONFLICT, Json(json!({ "error": "closed" })))),
        }
        change(&mut conn, id, "paid").await?;
        self.steps.reach(Step::PaymentCommitted).await;
        Ok((StatusCode::OK, Json(json!({ "id": id }))))
    }
}

async fn order(conn: &mut Db, id: &str) -> QueryResult<Option<TaughtOrder>> {
    let found = diesel::sql_query("SELECT * FROM orders WHERE id = ?").bind::<Text, _>(id);
    found.get_result(conn).await.optional()
}

/// The state was looked at before, so the UPDATE does not look again.
pub(super) async fn change(conn: &mut Db, id: &str, state: &'static str) -> QueryResult<()> {
    conn.transaction(async |conn| {
        let update = diesel::sql_query("UPDATE orders SET state = ? WHERE id = ?");
        update.bind::<Text, _>(state).bind::<Text, _>(id).execute(conn).await?;
        message(conn, id, state).await
    })
    .await
}

async fn message(conn: &mut Db, order_id: &str, event: &str) -> QueryResult<()> {
    let insert = diesel::sql_query("INSERT INTO messages (order_id, event, status) VALUES (?, ?, 0)");
    insert.bind::<Text, _>(order_id).bind::<Text, _>(event).execute(conn).await?;
    Ok(())
}
