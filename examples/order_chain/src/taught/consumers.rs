//! The services as they are taught: offsets are committed in the background, and the service looks first whether it knows the order.

use std::time::Duration;

use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;
use diesel_async::pooled_connection::deadpool::Pool;
use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde::Deserialize;
use tokio::time::sleep;

use crate::Failure;
use crate::domain::ORDERS;
use crate::services::ledger::Service;
use crate::shop::sqlite::Db;

/// Before the client is asked again, when it had nothing.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Deserialize)]
struct Event {
    event: String,
    order_id: String,
    customer_id: i64,
    product_id: i64,
    quantity: i64,
    coupon_id: Option<i64>,
}

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Consumes until it is dropped.
pub(super) async fn consume(service: Service, pool: Pool<Db>, bootstrap: String) -> Result<(), Failure> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", service.name())
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", "6000")
        .create()?;
    consumer.subscribe(&[ORDERS])?;
    loop {
        let event: Option<Event> = match consumer.poll(Duration::ZERO) {
            Some(Ok(record)) => record.payload().and_then(|payload| serde_json::from_slice(payload).ok()),
            Some(Err(error)) => {
                tracing::info!(%error, "nothing was received");
                None
            }
            None => None,
        };
        let Some(event) = event else {
            sleep(PAUSE).await;
            continue;
        };
        if let Err(error) = handle(service, &pool, &event).await {
            tracing::info!(%error, "a message was not processed");
        }
    }
}

async fn handle(service: Service, pool: &Pool<Db>, event: &Event) -> Result<(), Failure> {
    let (subject, amount) = match service {
        Service::Stock => (Some(event.product_id), event.quantity),
        Service::Coupon => (event.coupon_id, 1),
        Service::Points => (Some(event.customer_id), event.quantity),
    };
    let mut conn = pool.get().await?;
    let known = diesel::sql_query("SELECT count(*) AS count FROM entries WHERE order_id = ? AND event = ?");
    let known: Count =
        known.bind::<Text, _>(&event.order_id).bind::<Text, _>(&event.event).get_result(&mut *conn).await?;
    if known.count > 0 {
        return Ok(());
    }
    let insert = diesel::sql_query("INSERT INTO entries VALUES (?, ?, ?, ?)");
    insert
        .bind::<Text, _>(&event.order_id)
        .bind::<Text, _>(&event.event)
        .bind::<Nullable<BigInt>, _>(subject)
        .bind::<BigInt, _>(amount)
        .execute(&mut *conn)
        .await?;
    Ok(())
}
