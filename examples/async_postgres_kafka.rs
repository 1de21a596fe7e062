//! An order service on tokio: diesel-async with PostgreSQL and a deadpool, and Kafka.
//!
//! ```sh
//! cargo run --example async_postgres_kafka
//! ```
//!
//! It takes its servers from `OUTBOX_TEST_POSTGRES_URL` (a URL) and `OUTBOX_TEST_KAFKA` (`host:port`), or from two arguments;
//! works in a schema and a topic of its own, and removes both.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod support;
#[path = "support/topic.rs"]
mod topic;

use std::collections::BTreeSet;

use diesel::prelude::*;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{Message, MessageId, Outbox, OutboxMessage, Topic};
use serde::Serialize;
use tokio::task::JoinSet;

use self::schema::orders;
use self::support::{Failure, TIMEOUT, addresses};
use self::topic::{Received, delete_topic, read_topic};

mod schema {
    diesel::table! {
        orders (id) {
            id -> BigInt,
            total_cents -> BigInt,
        }
    }
}

/// Its topic is chosen at run time; usually it is a text or a constant.
#[derive(Serialize, OutboxMessage)]
#[outbox(topic = topic, kind = "order.placed", key = order_id)]
struct OrderPlaced {
    #[serde(skip)]
    topic: String,
    order_id: i64,
    total_cents: i64,
}

/// The application's own error: `?` brings the database's and the outbox's errors into it.
#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("the payment of {0} cents is refused")]
    PaymentRefused(i64),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

#[derive(Clone)]
struct Shop {
    pool: Pool<AsyncPgConnection>,
    outbox: Outbox,
    topic: String,
}

impl Shop {
    fn event(&self, order_id: i64, total_cents: i64) -> OrderPlaced {
        OrderPlaced { topic: self.topic.clone(), order_id, total_cents }
    }

    /// The order, its message and its payment: all of them or nothing.
    async fn place(&self, conn: &mut AsyncPgConnection, id: i64, cents: i64) -> Result<MessageId, ShopError> {
        conn.transaction(async |conn| {
            let order = (orders::id.eq(id), orders::total_cents.eq(cents));
            diesel::insert_into(orders::table).values(order).execute(conn).await?;
            let message = self.outbox.enqueue_async(conn, &self.event(id, cents)).await?;
            if cents > 100_000 {
                return Err(ShopError::PaymentRefused(cents));
            }
            Ok(message)
        })
        .await
    }

    /// Many orders at once, and their messages in as few statements.
    async fn import(&self, conn: &mut AsyncPgConnection, ids: &[i64]) -> QueryResult<Vec<MessageId>> {
        conn.transaction(async |conn| {
            let rows: Vec<_> = ids.iter().map(|id| (orders::id.eq(*id), orders::total_cents.eq(500_i64))).collect();
            diesel::insert_into(orders::table).values(rows).execute(conn).await?;
            self.outbox.enqueue_all_async(conn, ids.iter().map(|id| self.event(*id, 500))).await
        })
        .await
    }

    /// A tombstone, for a topic that is compacted.
    async fn erase(&self, conn: &mut AsyncPgConnection, id: i64) -> QueryResult<MessageId> {
        conn.transaction(async |conn| {
            diesel::delete(orders::table.find(id)).execute(conn).await?;
            let erased = Message::to(&*self.topic).kind("order.erased").key(id.to_string());
            self.outbox.enqueue_async(conn, &erased).await
        })
        .await
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let variables = ["OUTBOX_TEST_POSTGRES_URL", "OUTBOX_TEST_KAFKA"];
    let Some([postgres, kafka]) = addresses(variables) else { return Ok(()) };
    // The schema and the topic.
    let name = format!("shop_{}", uuid::Uuid::now_v7().simple());
    let mut admin = AsyncPgConnection::establish(&postgres).await?;
    admin.batch_execute(&format!("CREATE SCHEMA {name}")).await?;
    let separator = if postgres.contains('?') { '&' } else { '?' };
    let within_schema = format!("{postgres}{separator}options=-c%20search_path%3D{name}");
    // A task, so that what was made is removed also after a panic.
    let ran = tokio::spawn(run(within_schema, kafka.clone(), name.clone())).await;
    admin.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await?;
    let deleted = tokio::task::spawn_blocking(move || delete_topic(&kafka, &name)).await?;
    ran??;
    deleted
}

fn pool(postgres: &str, connections: usize) -> Result<Pool<AsyncPgConnection>, Failure> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(postgres);
    Ok(Pool::builder(manager).max_size(connections).build()?)
}

async fn run(postgres: String, kafka: String, topic: String) -> Result<(), Failure> {
    let shop = Shop {
        pool: pool(&postgres, 8)?,
        outbox: Outbox::builder().topic(Topic::new(&*topic)).build()?,
        topic: topic.clone(),
    };
    let mut conn = shop.pool.get().await?;
    conn.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY, total_cents bigint NOT NULL)").await?;
    shop.outbox.migrate_async(&mut conn).await?;
    drop(conn);

    // The relay has connections of its own: the application's may all be taken.
    let transport = KafkaTransport::builder(KafkaConfig::new(&kafka))
        .create_topic(KafkaTopic::new(&*topic).partitions(3).replication(1))
        .build()?;
    let relay = shop.outbox.relay().store(PostgresStore::new(pool(&postgres, 6)?)).transport(transport).start().await?;

    let placed = place_concurrently(&shop).await?;
    println!("8 tasks placed 200 orders: {} committed, the payment of the others was refused.", placed.len());
    let mut conn = shop.pool.get().await?;
    let ids: Vec<i64> = (1_001..=2_000).collect();
    let imported = shop.import(&mut conn, &ids).await?;
    println!("1 transaction imported {} orders.", imported.len());
    let erased = shop.erase(&mut conn, 1_001).await?;
    println!("1 order was erased: a tombstone for its key.");

    let report = relay.shutdown(TIMEOUT).await;
    assert!(report.is_clean(), "{report:?}");
    let received = tokio::task::spawn_blocking(move || read_topic(&kafka, &topic)).await??;
    let committed = placed.iter().chain(&imported).chain([&erased]).map(MessageId::to_string);
    let ids: BTreeSet<String> = received.keys().cloned().collect();
    assert_eq!(ids, committed.collect(), "Kafka has what was committed, and nothing else");
    assert_eq!(received.len(), 180 + 1_000 + 1);
    let tombstone = Received { kind: "order.erased".into(), key: Some("1001".into()), payload: None };
    assert_eq!(received[&erased.to_string()], tombstone);
    let payload = Some(r#"{"order_id":1001,"total_cents":500}"#.into());
    let event = Received { kind: "order.placed".into(), key: Some("1001".into()), payload };
    assert_eq!(received[&imported[0].to_string()], event);
    println!("The relay ended with nothing left. Kafka has {} messages: those, and no others.", received.len());
    Ok(())
}

/// 8 tasks with 25 orders each, of which every tenth is too expensive.
async fn place_concurrently(shop: &Shop) -> Result<Vec<MessageId>, Failure> {
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let shop = shop.clone();
        tasks.spawn(async move {
            let mut conn = shop.pool.get().await?;
            let mut placed = Vec::new();
            for id in (1..=200).filter(|id| id % 8 == task) {
                match shop.place(&mut conn, id, if id % 10 == 0 { 200_000 } else { 1_999 }).await {
                    Ok(message) => placed.push(message),
                    Err(ShopError::PaymentRefused(_)) => {}
                    Err(ShopError::Database(error)) => return Err(error.into()),
                }
            }
            Ok::<_, Failure>(placed)
        });
    }
    let placed: Result<Vec<Vec<MessageId>>, Failure> = tasks.join_all().await.into_iter().collect();
    Ok(placed?.concat())
}
