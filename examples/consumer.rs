//! A consumer that bills each order once, although Kafka has every message twice and one customer's address is missing at first. SQLite,
//! and a Kafka inside this process (librdkafka's mock cluster).
//!
//! ```sh
//! cargo run --example consumer
//! ```
//!
//! It checks what it tells, and fails where that is not so.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::sql_types::BigInt;
use diesel_outbox::MessageId;
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, ParkedRecords, Record, RunningConsumer};
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::transport::{KafkaConfig, header};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

type Failure = Box<dyn Error + Send + Sync>;

const GROUP: &str = "billing";
const TOPIC: &str = "orders";
const ORDERS: i64 = 40;

/// How long anything may take that is expected to happen.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(serde::Serialize, serde::Deserialize)]
struct OrderPlaced {
    order_id: i64,
    customer: String,
}

fn main() -> Result<(), Failure> {
    let kafka = MockCluster::new(1)?;
    kafka.create_topic(TOPIC, 2, 1)?;
    let folder = tempfile::tempdir()?;
    let pool = pool(folder.path().join("billing.db").to_str().ok_or("a plain path")?)?;
    pool.get()?.batch_execute("CREATE TABLE invoices (order_id integer NOT NULL, customer text NOT NULL)")?;

    send_twice(&kafka.bootstrap_servers())?;
    println!("Kafka has {ORDERS} orders of four customers, each twice, as after a lost acknowledgement.");

    let is_address_known = Arc::new(AtomicBool::new(false));
    let consumer = start(&kafka.bootstrap_servers(), &pool, Arc::clone(&is_address_known))?;
    let parked = ParkedRecords::new(GROUP);
    until("three customers are billed", || {
        Ok(invoices(&pool)?.len() == 30 && parked.list(&mut *pool.get()?, 0, 100)?.len() == 10)
    })?;
    let waiting = parked.list(&mut *pool.get()?, 0, 100)?;
    println!("30 orders are billed once each. The others wait, in order: {}.", waiting[0].error);

    is_address_known.store(true, Ordering::SeqCst);
    parked.release(&mut *pool.get()?, waiting[0].id)?;
    until("the fourth is billed", || Ok(invoices(&pool)?.len() == 40))?;
    let report = consumer.shutdown_blocking(TIMEOUT);
    assert!(report.is_clean(), "{report:?}");

    let mut billed = invoices(&pool)?;
    for customer in ["ann", "bob", "eve", "joe"] {
        let orders: Vec<i64> = billed.iter().filter(|(_, of)| of == customer).map(|(order, _)| *order).collect();
        assert!(orders.is_sorted() && orders.len() == 10, "{customer}: {orders:?}");
    }
    billed.sort_unstable();
    assert!(billed.iter().map(|(order, _)| *order).eq(0..ORDERS), "each order is billed once");
    println!("The address was added and the record released: all {ORDERS} are billed once, each customer's in order.");
    Ok(())
}

fn start(kafka: &str, pool: &Sqlite, is_address_known: Arc<AtomicBool>) -> Result<RunningConsumer, Failure> {
    let consumer = KafkaConsumer::new(KafkaConfig::new(kafka), GROUP).topic(TOPIC);
    consumer.migrate(&mut *pool.get()?)?;
    let bill = move |conn: &mut SqliteConnection, record: &Record| {
        let placed: OrderPlaced = record.decode()?;
        if placed.customer == "joe" && !is_address_known.load(Ordering::SeqCst) {
            return Err(HandlerError::permanent("joe has no address"));
        }
        diesel::sql_query("INSERT INTO invoices VALUES (?, ?)")
            .bind::<BigInt, _>(placed.order_id)
            .bind::<diesel::sql_types::Text, _>(placed.customer)
            .execute(conn)?;
        Ok(())
    };
    Ok(consumer.start(pool.clone(), bill)?)
}

/// What an outbox and its relay do.
fn send_twice(kafka: &str) -> Result<(), Failure> {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", kafka).create()?;
    for order_id in 0..ORDERS {
        let customer = ["ann", "bob", "eve", "joe"][usize::try_from(order_id % 4)?];
        let id = MessageId::new().to_string();
        let payload = serde_json::to_string(&OrderPlaced { order_id, customer: customer.to_owned() })?;
        for _ in 0..2 {
            let headers = OwnedHeaders::new().insert(Header { key: header::MESSAGE_ID, value: Some(&id) });
            let record = BaseRecord::to(TOPIC).key(customer).payload(&payload).headers(headers);
            producer.send(record).map_err(|(error, _)| error)?;
        }
    }
    Ok(producer.flush(TIMEOUT)?)
}

fn invoices(pool: &Sqlite) -> Result<Vec<(i64, String)>, Failure> {
    diesel::table! {
        invoices (order_id) {
            order_id -> BigInt,
            customer -> Text,
        }
    }
    // In the order in which they were written.
    let written = diesel::dsl::sql::<BigInt>("rowid");
    Ok(invoices::table.order(written).load(&mut pool.get()?)?)
}

type Sqlite = Pool<ConnectionManager<SqliteConnection>>;

#[derive(Debug)]
struct SetUp;

impl CustomizeConnection<SqliteConnection, diesel::r2d2::Error> for SetUp {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), diesel::r2d2::Error> {
        conn.batch_execute(SQLITE_PRAGMAS).map_err(diesel::r2d2::Error::QueryError)
    }
}

/// A connection for each worker, one for the loop, and one for this program.
fn pool(file: &str) -> Result<Sqlite, Failure> {
    let pool = Pool::builder().max_size(10).connection_customizer(Box::new(SetUp));
    Ok(pool.build(ConnectionManager::new(file))?)
}

fn until(what: &str, mut is_so: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let end = Instant::now() + TIMEOUT;
    while !is_so()? {
        assert!(Instant::now() < end, "not within {TIMEOUT:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    Ok(())
}
