//! An order service without async: Diesel with MariaDB (or MySQL) and an r2d2 pool, and Kafka.
//!
//! ```sh
//! cargo run --example sync_mariadb --features diesel/mysql
//! ```
//!
//! The feature is that of Diesel's own connection, which needs MariaDB's or MySQL's C client library. The example takes its
//! servers from `OUTBOX_TEST_MARIADB_URL` (a URL with a database) and `OUTBOX_TEST_KAFKA` (`host:port`), or from two
//! arguments; works in a database and a topic of its own, and removes both.
#![allow(clippy::print_stdout, reason = "it tells what it does")]

mod support;
#[path = "support/topic.rs"]
mod topic;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use diesel::connection::{InstrumentationEvent, SimpleConnection};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel_outbox::store::MysqlStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{EnqueueError, Message, MessageId, Outbox, OutboxMessage, Topic};
use serde::Serialize;

use self::schema::orders;
use self::support::{Failure, TIMEOUT, addresses};
use self::topic::{delete_topic, read_topic};

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

/// This application counts its statements, and so has an instrumentation of its own: the outbox cannot install its hook
/// by itself, and is put before it, once for each connection of the pool. Without this nothing is needed.
#[derive(Debug)]
struct Instrumented {
    outbox: Outbox,
    statements: Arc<AtomicUsize>,
}

impl<E> CustomizeConnection<MysqlConnection, E> for Instrumented {
    fn on_acquire(&self, conn: &mut MysqlConnection) -> Result<(), E> {
        let statements = Arc::clone(&self.statements);
        conn.set_instrumentation(self.outbox.commit_hook().chain(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { .. } = event {
                statements.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Ok(())
    }
}

#[derive(Clone)]
struct Shop {
    pool: Pool<ConnectionManager<MysqlConnection>>,
    outbox: Outbox,
    topic: String,
}

impl Shop {
    /// An order, and a gift that is not in stock: its savepoint rolls back, the order stands.
    fn place(&self, conn: &mut MysqlConnection, id: i64) -> QueryResult<MessageId> {
        conn.transaction(|conn| {
            let message = self.write(conn, id, 1_999)?;
            let gift = conn.transaction(|conn| {
                self.write(conn, -id, 0)?;
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            });
            assert_eq!(gift, Err(diesel::result::Error::RollbackTransaction));
            Ok(message)
        })
    }

    fn write(&self, conn: &mut MysqlConnection, order_id: i64, total_cents: i64) -> QueryResult<MessageId> {
        let order = (orders::id.eq(order_id), orders::total_cents.eq(total_cents));
        diesel::insert_into(orders::table).values(order).execute(conn)?;
        self.outbox.enqueue(conn, &OrderPlaced { topic: self.topic.clone(), order_id, total_cents })
    }

    /// Four threads with 25 orders each.
    fn place_concurrently(&self) -> Result<Vec<MessageId>, Failure> {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let shop = self.clone();
                thread::spawn(move || {
                    let mut conn = shop.pool.get()?;
                    let ids = (1..=100).filter(|id| id % 4 == thread);
                    ids.map(|id| Ok::<_, Failure>(shop.place(&mut conn, id)?)).collect::<Result<Vec<_>, _>>()
                })
            })
            .collect();
        let placed = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        Ok(placed.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

fn main() -> Result<(), Failure> {
    let variables = ["OUTBOX_TEST_MARIADB_URL", "OUTBOX_TEST_KAFKA"];
    let Some([mariadb, kafka]) = addresses(variables) else { return Ok(()) };
    // The database and the topic.
    let name = format!("shop_{}", uuid::Uuid::now_v7().simple());
    let (server, _database) = mariadb.rsplit_once('/').ok_or("the URL names no database")?;
    let mut admin = MysqlConnection::establish(&mariadb)?;
    admin.batch_execute(&format!("CREATE DATABASE {name}"))?;
    // What was made is removed also after a panic.
    let ran = catch_unwind(AssertUnwindSafe(|| run(&format!("{server}/{name}"), &kafka, &name)));
    admin.batch_execute(&format!("DROP DATABASE {name}"))?;
    let deleted = delete_topic(&kafka, &name);
    ran.unwrap_or_else(|panic| resume_unwind(panic))?;
    deleted
}

fn run(mariadb: &str, kafka: &str, topic: &str) -> Result<(), Failure> {
    let outbox = Outbox::builder().topic(Topic::new(topic)).build()?;
    let statements = Arc::new(AtomicUsize::new(0));
    let instrumented = Instrumented { outbox: outbox.clone(), statements: Arc::clone(&statements) };
    let manager = ConnectionManager::<MysqlConnection>::new(mariadb);
    let pool = Pool::builder().max_size(4).connection_customizer(Box::new(instrumented)).build(manager)?;
    let shop = Shop { pool, outbox, topic: topic.to_owned() };
    let mut conn = shop.pool.get()?;
    conn.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY, total_cents bigint NOT NULL)")?;
    shop.outbox.migrate(&mut conn)?;
    drop(conn);

    // A thread of its own, and connections of its own: the application's may all be taken.
    let relay_pool = Pool::builder().max_size(6).build(ConnectionManager::<MysqlConnection>::new(mariadb))?;
    let created = KafkaTopic::new(topic).partitions(3).replication(1);
    let transport = KafkaTransport::builder(KafkaConfig::new(kafka)).create_topic(created).build()?;
    let relay = shop.outbox.relay().store(MysqlStore::new(relay_pool)).transport(transport).start_blocking()?;

    let placed = shop.place_concurrently()?;
    println!("4 threads placed {} orders, each with a gift whose savepoint rolled back.", placed.len());
    println!("The application's own instrumentation saw {} statements.", statements.load(Ordering::Relaxed));
    assert!(statements.load(Ordering::Relaxed) >= 400, "four statements and more for each order");

    let mut conn = shop.pool.get()?;
    let refused = shop.outbox.enqueue(&mut conn, &Message::to("ordres")).expect_err("no such topic");
    let reason = EnqueueError::of(&refused).expect("an error of the outbox");
    assert!(matches!(reason, EnqueueError::UnknownTopic { .. }), "{reason}");
    println!("A message with a misspelt topic was refused before anything was written.");

    // What the hook did not see would be the sweeper's, and not waited for.
    assert!(relay.flush(TIMEOUT)?.is_settled(), "everything is sent in time");
    let left: i64 =
        diesel::dsl::sql::<diesel::sql_types::BigInt>("SELECT count(*) FROM outbox_messages").get_result(&mut conn)?;
    assert_eq!(left, 0, "the hook saw every commit");
    let report = relay.shutdown(TIMEOUT)?;
    assert!(report.is_clean(), "{report:?}");

    let received = read_topic(kafka, topic)?;
    let ids: BTreeSet<String> = received.keys().cloned().collect();
    assert_eq!(
        ids,
        placed.iter().map(MessageId::to_string).collect(),
        "Kafka has what was committed, and nothing else"
    );
    println!("The hook saw every commit. Kafka has {} messages: those orders, and no gift.", received.len());
    Ok(())
}
