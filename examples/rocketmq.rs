//! An order service without async, on SQLite, that tells RocketMQ.
//!
//! ```sh
//! cargo run --example rocketmq --features rocketmq
//! ```
//!
//! It takes its server from `OUTBOX_TEST_ROCKETMQ` (the name server's `host:port`), or from an argument, and makes a topic of
//! its own. `docs/rocketmq.md` has the settings, the guarantees and the errors.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod support;

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::store::{SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::{RocketMqConfig, RocketMqTopic, RocketMqTransport};
use diesel_outbox::{MessageId, Outbox, OutboxMessage, Topic};
use serde::Serialize;
use xtask::servers::rocketmq::request;

use self::support::{Failure, TIMEOUT, addresses};

const QUEUES: u32 = 4;

/// The kind becomes the tag, by which consumers subscribe; the customer the sharding key, by which they keep the order.
#[derive(Serialize, OutboxMessage)]
#[outbox(topic = topic, kind = "order.placed", key = customer)]
struct OrderPlaced {
    #[serde(skip)]
    topic: String,
    customer: i64,
    total_cents: i64,
}

fn main() -> Result<(), Failure> {
    let Some([name_server]) = addresses(["OUTBOX_TEST_ROCKETMQ"]) else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db").to_string_lossy().into_owned();
    let mut conn = SqliteConnection::establish(&file)?;
    conn.batch_execute(SQLITE_PRAGMAS)?;
    conn.batch_execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total_cents INTEGER)")?;

    let topic = format!("orders-{}", MessageId::new());
    let rocketmq = RocketMqTransport::builder(RocketMqConfig::new(&*name_server).group("shop-outbox"))
        .create_topic(RocketMqTopic::new(&*topic).queues(QUEUES))
        .build()?;
    let outbox = Outbox::builder().topic(Topic::new(&*topic)).build()?;
    outbox.migrate(&mut conn)?;
    let pool = Pool::builder().max_size(2).build(ConnectionManager::<SqliteConnection>::new(&*file))?;
    let relay = outbox.relay().store(SqliteStore::new(pool)).transport(rocketmq).start_blocking()?;

    let mut place = |customer: i64, total_cents: i64| {
        conn.immediate_transaction(|conn| {
            let insert = diesel::sql_query("INSERT INTO orders (customer, total_cents) VALUES (?, ?)");
            let insert = insert.bind::<diesel::sql_types::BigInt, _>(customer);
            insert.bind::<diesel::sql_types::BigInt, _>(total_cents).execute(conn)?;
            outbox.enqueue(conn, &OrderPlaced { topic: topic.clone(), customer, total_cents })?;
            // The payment is refused behind the message: neither order nor message is left.
            if total_cents > 100_000 { Err(diesel::result::Error::RollbackTransaction) } else { Ok(()) }
        })
    };
    place(7, 1_000)?;
    place(7, 2_500)?;
    place(8, 400)?;
    assert!(place(8, 1_000_000).is_err());

    let began_at = Instant::now();
    let held = loop {
        let held = stored_count(&name_server, &topic)?;
        if held >= 3 || began_at.elapsed() > TIMEOUT {
            break held;
        }
    };
    let report = relay.shutdown(Duration::from_secs(5))?;
    assert!(report.is_clean(), "{report:?}");
    println!("4 orders, one of them rolled back: the broker holds {held} messages of {topic}.");
    assert_eq!(held, 3);
    Ok(())
}

/// How many messages the broker holds of a topic.
fn stored_count(name_server: &str, topic: &str) -> Result<u64, Failure> {
    const GET_ROUTE: u16 = 105;
    const GET_MAX_OFFSET: u16 = 30;
    let route = String::from_utf8(request(name_server, GET_ROUTE, &[("topic", topic)])?.body)?;
    // {"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},..
    let addresses = route.split_once("\"brokerAddrs\":{").map(|(_, rest)| rest.split('"'));
    let broker = addresses.and_then(|mut parts| parts.find(|part| part.contains('.') && part.contains(':')));
    let Some(broker) = broker else { return Ok(0) };
    let offset = |queue: u32| {
        let header = request(broker, GET_MAX_OFFSET, &[("topic", topic), ("queueId", &queue.to_string())])?.header;
        let offset =
            header.split_once("\"offset\":\"").and_then(|(_, rest)| rest.split('"').next()?.parse::<u64>().ok());
        offset.ok_or_else(|| Failure::from(format!("no offset in {header}")))
    };
    (0..QUEUES).map(offset).sum()
}
