//! `outbox.transaction`, the fastest way to enqueue: diesel-async with PostgreSQL, and a broker in memory.
//!
//! ```sh
//! cargo run --example own_transaction
//! ```
//!
//! Messages are kept until the closure has ended. Then one INSERT writes them, and the COMMIT travels right behind it: one
//! round trip for both, and a proof that they are there, so that the relay sends them without reading them again. Needs
//! no instrumentation of the connection.
//!
//! It takes its server from `OUTBOX_TEST_POSTGRES_URL` (a URL), or from an argument; works in a schema of its own, and
//! removes it.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod support;

use std::collections::BTreeMap;

use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as QueryError};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{AsyncTransaction, Outbox, OutboxMessage, Topic};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use serde::Serialize;

use self::schema::orders;
use self::support::{Failure, TIMEOUT, addresses};

mod schema {
    diesel::table! {
        orders (id) {
            id -> BigInt,
            total_cents -> BigInt,
        }
    }
}

#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "orders", kind = "order.placed", key = order_id)]
struct OrderPlaced {
    order_id: i64,
    total_cents: i64,
}

#[derive(Serialize, OutboxMessage)]
#[outbox(topic = "mails", kind = "mail.wanted", key = order_id)]
struct ReceiptWanted {
    order_id: i64,
}

/// An order and its two messages. What takes a connection can take the transaction.
async fn place(tx: &mut AsyncTransaction<'_, AsyncPgConnection>, order_id: i64) -> QueryResult<()> {
    let total_cents = 1_999;
    let order = (orders::id.eq(order_id), orders::total_cents.eq(total_cents));
    diesel::insert_into(orders::table).values(order).execute(tx).await?;
    // Kept until the end: nothing to wait for.
    tx.enqueue(&OrderPlaced { order_id, total_cents })?;
    tx.enqueue(&ReceiptWanted { order_id })?;
    Ok(())
}

/// Places each order in a transaction of its own, and in each a gift that is not in stock: its savepoint rolls back, and
/// takes its messages with it.
async fn place_with_gifts(conn: &mut AsyncPgConnection, outbox: &Outbox, ids: Vec<i64>) -> QueryResult<()> {
    for id in ids {
        outbox
            .transaction_async(conn, async |tx| {
                place(tx, id).await?;
                let gift = tx.transaction(async |tx| {
                    place(tx, -id).await?;
                    Err::<(), _>(QueryError::RollbackTransaction)
                });
                assert_eq!(gift.await, Err(QueryError::RollbackTransaction));
                Ok::<_, QueryError>(())
            })
            .await?;
    }
    Ok(())
}

/// An order whose number is taken, by somebody who overlooks the error. PostgreSQL rolls such a transaction back and
/// answers its COMMIT as if nothing were wrong, and Diesel's own `transaction` passes that on.
async fn ignore_an_error(conn: &mut AsyncPgConnection, outbox: &Outbox) -> [QueryResult<()>; 2] {
    let taken = (orders::id.eq(1), orders::total_cents.eq(1));
    let diesels = conn
        .transaction(async |conn| {
            let _overlooked = diesel::insert_into(orders::table).values(taken).execute(conn).await;
            Ok(())
        })
        .await;
    let outboxs = outbox
        .transaction_async(conn, async |tx| {
            let _overlooked = place(tx, 1).await;
            tx.enqueue(&ReceiptWanted { order_id: 1 })?;
            Ok(())
        })
        .await;
    [diesels, outboxs]
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Some([postgres]) = addresses(["OUTBOX_TEST_POSTGRES_URL"]) else { return Ok(()) };
    let name = format!("shop_{}", uuid::Uuid::now_v7().simple());
    let mut admin = AsyncPgConnection::establish(&postgres).await?;
    admin.batch_execute(&format!("CREATE SCHEMA {name}")).await?;
    let separator = if postgres.contains('?') { '&' } else { '?' };
    // A task, so that what was made is removed also after a panic.
    let ran = tokio::spawn(run(format!("{postgres}{separator}options=-c%20search_path%3D{name}"))).await;
    admin.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await?;
    ran?
}

fn pool(postgres: &str) -> Result<Pool<AsyncPgConnection>, Failure> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(postgres);
    Ok(Pool::builder(manager).max_size(6).build()?)
}

async fn run(postgres: String) -> Result<(), Failure> {
    let recorder = DebuggingRecorder::new();
    let figures = recorder.snapshotter();
    recorder.install()?;
    // Longer than by default, so that on a slow machine, too, nothing is left to the sweeper.
    let [orders, mails] = ["orders", "mails"].map(|name| Topic::new(name).staleness(TIMEOUT));
    let outbox = Outbox::builder().topic(orders).topic(mails).build()?;
    let pools = (pool(&postgres)?, pool(&postgres)?);
    let mut conn = pools.0.get().await?;
    outbox.migrate_async(&mut conn).await?;
    conn.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY, total_cents bigint NOT NULL)").await?;
    let broker = MemoryTransport::new();
    let relay = outbox.relay().store(PostgresStore::new(pools.1)).transport(broker.clone()).start().await?;

    place_with_gifts(&mut conn, &outbox, (1..=100).collect()).await?;
    println!("100 orders were placed with two messages each, and a gift each whose savepoint rolled back.");
    let [diesels, outboxs] = ignore_an_error(&mut conn, &outbox).await;
    let is_unknown_error = matches!(outboxs, Err(QueryError::DatabaseError(DatabaseErrorKind::Unknown, _)));
    assert!(diesels.is_ok() && is_unknown_error, "{diesels:?}, {outboxs:?}");
    println!(
        "An overlooked error: Diesel's transaction said Ok for what was rolled back, the outbox's said what was wrong."
    );

    let report = relay.shutdown(TIMEOUT).await;
    assert!(report.is_clean(), "{report:?}");
    let placed = orders::table.count().get_result::<i64>(&mut conn).await?;
    let [orders, mails] = ["orders", "mails"].map(|topic| broker.delivered_to(topic).len());
    assert_eq!((placed, orders, mails), (100, 100, 100), "the broker has what was committed, and nothing else");
    let by_path = delivered_by_path(&figures);
    assert_eq!(by_path, BTreeMap::from([("inline".to_owned(), 200)]), "none was read again, none left to the sweeper");
    println!(
        "The broker has 200 messages: those, and no others. All of them left right after their COMMIT, without a read."
    );
    Ok(())
}

/// The library's own metric, as an application would see it.
fn delivered_by_path(figures: &Snapshotter) -> BTreeMap<String, u64> {
    let mut by_path = BTreeMap::new();
    for (key, _, _, value) in figures.snapshot().into_vec() {
        let path = key.key().labels().find(|label| label.key() == "path").map(|label| label.value().to_owned());
        if let ("outbox_delivered_total", Some(path), DebugValue::Counter(count @ 1..)) =
            (key.key().name(), path, value)
        {
            *by_path.entry(path).or_default() += count;
        }
    }
    by_path
}
