//! The jobs of the recipe: they look into tables each second.

use std::sync::Arc;
use std::time::Duration;

use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;
use diesel_async::pooled_connection::deadpool::Pool;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::json;
use tokio::time::sleep;

use super::cache::TaughtCache;
use super::shop::change;
use super::tables::{TaughtMessage, TaughtOrder};
use crate::Failure;
use crate::domain::ORDERS;
use crate::shop::sqlite::Db;

const POLL: Duration = Duration::from_secs(1);
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
const ROWS_MAX: i64 = 500;

/// Sends what has status 0, and sets it to 1.
pub(super) async fn send(pool: Pool<Db>, producer: BaseProducer) {
    loop {
        if let Err(error) = send_some(&pool, &producer).await {
            tracing::info!(%error, "messages were not sent");
        }
        sleep(POLL).await;
    }
}

async fn send_some(pool: &Pool<Db>, producer: &BaseProducer) -> Result<(), Failure> {
    let mut conn = pool.get().await?;
    let waiting = diesel::sql_query("SELECT id, order_id, event FROM messages WHERE status = 0 ORDER BY id LIMIT ?");
    let waiting: Vec<TaughtMessage> = waiting.bind::<BigInt, _>(ROWS_MAX).load(&mut *conn).await?;
    let mut sent = Vec::new();
    for message in waiting {
        let order = diesel::sql_query("SELECT * FROM orders WHERE id = ?");
        let order: TaughtOrder =
            order.bind::<diesel::sql_types::Text, _>(&message.order_id).get_result(&mut *conn).await?;
        let payload = json!({
            "event": message.event,
            "order_id": order.id,
            "customer_id": order.customer_id,
            "product_id": order.product_id,
            "quantity": order.quantity,
            "coupon_id": order.coupon_id,
        });
        let payload = payload.to_string();
        let record = BaseRecord::to(ORDERS).key(&order.id).payload(&payload);
        producer.send(record).map_err(|(error, _)| error)?;
        sent.push(message.id.to_string());
    }
    if sent.is_empty() {
        return Ok(());
    }
    tokio::task::block_in_place(|| producer.flush(SEND_TIMEOUT))?;
    let update = format!("UPDATE messages SET status = 1 WHERE id IN ({})", sent.join(", "));
    diesel::sql_query(update).execute(&mut *conn).await?;
    Ok(())
}

/// Whether nothing waits to be sent.
pub(super) async fn all_sent(pool: &Pool<Db>) -> Result<bool, Failure> {
    let mut conn = pool.get().await?;
    let waiting = diesel::sql_query("SELECT id, order_id, event FROM messages WHERE status = 0 LIMIT 1");
    Ok(waiting.load::<TaughtMessage>(&mut *conn).await?.is_empty())
}

/// Closes what is unpaid for longer than the term, and gives its stock back.
pub(super) async fn close(pool: Pool<Db>, cache: Arc<TaughtCache>, payment_term: Duration) {
    loop {
        if let Err(error) = close_some(&pool, &cache, payment_term).await {
            tracing::info!(%error, "orders were not closed");
        }
        sleep(POLL).await;
    }
}

async fn close_some(pool: &Pool<Db>, cache: &TaughtCache, payment_term: Duration) -> Result<(), Failure> {
    let mut conn = pool.get().await?;
    let sql = "SELECT * FROM orders WHERE state = 'created'
               AND created_at_ms < CAST(unixepoch('subsec') * 1000 AS integer) - ?";
    let term_ms = i64::try_from(payment_term.as_millis())?;
    let unpaid: Vec<TaughtOrder> = diesel::sql_query(sql).bind::<BigInt, _>(term_ms).load(&mut *conn).await?;
    for order in unpaid {
        change(&mut conn, &order.id, "cancelled").await?;
        cache.add(order.product_id, order.quantity).await?;
    }
    Ok(())
}
