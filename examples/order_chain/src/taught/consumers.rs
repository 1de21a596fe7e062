//! The services as they are taught: offsets are committed in the background, and the service looks first whether it knows the order.

use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;
use diesel_async::pooled_connection::deadpool::Pool;
use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::consumer::{Consumer, StreamConsumer};
use serde::Deserialize;

use crate::Failure;
use crate::domain::ORDERS;
use crate::services::ledger::Service;
use crate::shop::sqlite::Db;

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
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", service.name())
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", "6000")
        .create()?;
    consumer.subscribe(&[ORDERS])?;
    loop {
        let record = match consumer.recv().await {
            Ok(record) => record,
            Err(error) => {
                tracing::info!(%error, "nothing was received");
                continue;
            }
        };
        let Some(event) = record.payload().and_then(|payload| serde_json::from_slice(payload).ok()) else { continue };
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
