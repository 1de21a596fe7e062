//! A shop: one database, one topic, orders.

use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::result::Error;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::relay::{Relay, RelayBuilder};
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport, Transport};
use diesel_outbox::{Limits, Message, MessageId, Outbox, Topic};
use uuid::Uuid;
use xtask::servers::ServerKind;
use xtask::test_servers;

/// What bounds a wait of these tests: many times what the slowest of them takes on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(90);

const SCHEMA: &str = include_str!("../../../migrations/outbox/postgres/0000outbox01_messages/up.sql");

diesel::table! {
    orders (message_id) {
        message_id -> Uuid,
        number -> Integer,
    }
}

diesel::table! {
    outbox_messages (id) {
        id -> BigInt,
        message_id -> Uuid,
        epoch -> Integer,
        attempts -> Integer,
        failures -> Integer,
    }
}

diesel::table! {
    outbox_dead_letters (message_id) {
        message_id -> Uuid,
        reason -> Text,
    }
}

/// Where a shop's database and topic are; enough to open it again in another process.
#[derive(Debug, Clone)]
pub(super) struct Shop {
    pub(super) database_url: String,
    pub(super) bootstrap: String,
    pub(super) topic: String,
}

impl Shop {
    /// A new shop on the shared servers; `None` where one of them cannot be had.
    pub(super) async fn open() -> Option<Self> {
        let (postgres, kafka) =
            (test_servers::shared_or_skip(ServerKind::Postgres)?, test_servers::shared_or_skip(ServerKind::Kafka)?);
        Some(Self::open_on(&postgres, &kafka).await)
    }

    pub(super) async fn open_on(postgres_url: &str, bootstrap: &str) -> Self {
        let name = format!("shop_{}", Uuid::now_v7().simple());
        let mut server = AsyncPgConnection::establish(postgres_url).await.unwrap();
        server.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = postgres_url.rsplit_once('/').unwrap();
        let shop = Self { database_url: format!("{base}/{name}"), bootstrap: bootstrap.to_owned(), topic: name };
        let mut connection = shop.connect().await;
        connection.batch_execute(SCHEMA).await.unwrap();
        connection.batch_execute("CREATE TABLE orders (message_id uuid PRIMARY KEY, number integer)").await.unwrap();
        shop
    }

    pub(super) async fn connect(&self) -> AsyncPgConnection {
        AsyncPgConnection::establish(&self.database_url).await.unwrap()
    }

    /// The shortest staleness there is, and few attempts, so that a test need not wait.
    pub(super) fn outbox(&self) -> Outbox {
        let topic = Topic::new(self.topic.as_str())
            .staleness(Duration::from_secs(2))
            .attempts_max(3)
            .retry(Fixed::from(vec![Duration::from_millis(100)]));
        Outbox::builder().topic(topic).build().unwrap()
    }

    pub(super) fn pool(&self) -> Pool<AsyncPgConnection> {
        let manager = AsyncDieselConnectionManager::new(&self.database_url);
        Pool::builder(manager).max_size(8).build().unwrap()
    }

    pub(super) fn kafka(&self) -> KafkaTransport {
        let config = KafkaConfig::new(&self.bootstrap).set("message.timeout.ms", "2000");
        let topic = KafkaTopic::new(self.topic.as_str()).partitions(3).replication(1);
        KafkaTransport::builder(config).create_topic(topic).build().unwrap()
    }

    pub(super) fn relay(&self, outbox: &Outbox, transport: impl Transport) -> RelayBuilder {
        outbox.relay().store(PostgresStore::new(self.pool())).transport(transport).limits(limits())
    }

    pub(super) async fn start_relay(&self, outbox: &Outbox) -> Relay {
        self.relay(outbox, self.kafka()).start().await.unwrap()
    }

    /// Places order number `number`; every seventh is rolled back, and every seventh swallows an error on the way, whose
    /// COMMIT is answered as if it had succeeded.
    pub(super) async fn place(
        connection: &mut AsyncPgConnection,
        outbox: &Outbox,
        topic: &str,
        number: i32,
    ) -> QueryResult<()> {
        let message = order(topic, number);
        let placed = connection
            .transaction(async |connection| {
                let id = outbox.enqueue_async(connection, &message).await?;
                insert_order(connection, id, number).await?;
                match number % 7 {
                    3 => Err(Error::RollbackTransaction),
                    5 => {
                        let twice = insert_order(connection, id, number).await;
                        assert!(twice.is_err(), "the key is taken");
                        Ok(())
                    }
                    _ => Ok(()),
                }
            })
            .await;
        match placed {
            Err(Error::RollbackTransaction) => Ok(()),
            other => other,
        }
    }

    pub(super) async fn place_all(&self, outbox: &Outbox, numbers: std::ops::Range<i32>) {
        let mut connection = self.connect().await;
        for number in numbers {
            Self::place(&mut connection, outbox, &self.topic, number).await.unwrap();
        }
    }

    pub(super) async fn committed(&self) -> Vec<Uuid> {
        orders::table.select(orders::message_id).load(&mut self.connect().await).await.unwrap()
    }

    pub(super) async fn dead_letters(&self) -> Vec<(Uuid, String)> {
        let columns = (outbox_dead_letters::message_id, outbox_dead_letters::reason);
        outbox_dead_letters::table.select(columns).load(&mut self.connect().await).await.unwrap()
    }

    /// The highest attempts and failures of any live row.
    pub(super) async fn highest_attempts_and_failures(&self) -> (i32, i32) {
        let highest = (diesel::dsl::max(outbox_messages::attempts), diesel::dsl::max(outbox_messages::failures));
        let (attempts, failures): (Option<i32>, Option<i32>) =
            outbox_messages::table.select(highest).first(&mut self.connect().await).await.unwrap();
        (attempts.unwrap_or(0), failures.unwrap_or(0))
    }

    /// The messages that are not settled.
    pub(super) async fn unsettled(&self) -> Vec<Uuid> {
        outbox_messages::table.select(outbox_messages::message_id).load(&mut self.connect().await).await.unwrap()
    }

    pub(super) async fn live(&self) -> i64 {
        outbox_messages::table.count().get_result(&mut self.connect().await).await.unwrap()
    }

    /// Waits until no live row is left.
    pub(super) async fn wait_until_drained(&self) {
        let end = Instant::now() + DEADLINE;
        loop {
            let live = self.live().await;
            if live == 0 {
                return;
            }
            assert!(Instant::now() < end, "{live} rows are left after {DEADLINE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What order number `number` says.
pub(super) fn order(topic: &str, number: i32) -> Message {
    let key = format!("customer-{}", number % 20);
    Message::to(topic).kind("order.placed").key(key).payload_bytes(number.to_string())
}

pub(super) async fn insert_order(connection: &mut AsyncPgConnection, id: MessageId, number: i32) -> QueryResult<usize> {
    diesel::insert_into(orders::table)
        .values((orders::message_id.eq(*id.as_uuid()), orders::number.eq(number)))
        .execute(connection)
        .await
}

/// A lease just above the shop's delivery time-out, so that what a dead process held comes back within seconds.
pub(super) fn limits() -> Limits {
    Limits::default().lease_duration(Duration::from_secs(5))
}
