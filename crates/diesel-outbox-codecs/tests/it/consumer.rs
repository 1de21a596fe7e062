//! A consumer that is deployed beside producers of three versions.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use diesel::connection::SimpleConnection as _;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Error as PoolError, Pool};
use diesel::sqlite::SqliteConnection;
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, ParkedRecords};
use diesel_outbox::store::SQLITE_PRAGMAS;
use diesel_outbox::transport::KafkaConfig;
use diesel_outbox::{Message, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::Decoder;
use serde::{Deserialize, Serialize};
use xtask::servers::ServerKind;
use xtask::test_servers::shared_or_skip;

use crate::shop::{DEADLINE, Shop, kafka, new_topic};

#[derive(Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = topic, kind = "order.placed", key = order_id)]
struct PlacedV1 {
    order_id: i64,
    topic: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = topic, kind = "order.placed", key = order_id)]
struct Placed {
    order_id: i64,
    topic: String,
    currency: String,
}

/// What the consumer does not know yet.
#[derive(Serialize, OutboxMessage)]
#[outbox(topic = topic, kind = "order.placed", key = order_id)]
struct PlacedV3 {
    order_id: i64,
    topic: String,
    currency: String,
    cents: i64,
}

impl From<PlacedV1> for Placed {
    fn from(old: PlacedV1) -> Self {
        Self { order_id: old.order_id, topic: old.topic, currency: "EUR".to_owned() }
    }
}

#[derive(Debug)]
struct SetUp;

impl CustomizeConnection<SqliteConnection, PoolError> for SetUp {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), PoolError> {
        conn.batch_execute(SQLITE_PRAGMAS).map_err(PoolError::QueryError)
    }
}

#[test]
fn kafka_consumer_reads_old_shapes_and_parks_what_it_does_not_know() -> Result<()> {
    let Some(bootstrap) = shared_or_skip(ServerKind::Kafka) else { return Ok(()) };
    let topic = new_topic("shapes");
    let shop = Shop::open(Outbox::builder().topic(Topic::new(topic.as_str())).fingerprints().build()?)?;
    let placed = |order_id| Placed { order_id, topic: topic.clone(), currency: "USD".to_owned() };
    shop.relay(kafka(&bootstrap, &topic)?, |shop| {
        shop.enqueue(&PlacedV3 { order_id: 3, topic: topic.clone(), currency: "USD".to_owned(), cents: 1 })?;
        shop.enqueue(&Message::to(&topic).kind("order.erased").key("4"))?;
        shop.enqueue(&PlacedV1 { order_id: 1, topic: topic.clone() })?;
        shop.enqueue(&placed(2))
    })?;

    let decoder = Decoder::<Placed>::builder().upcast::<PlacedV1, Placed>().build()?;
    let manager = ConnectionManager::<SqliteConnection>::new(shop.file());
    let pool = Pool::builder().max_size(4).connection_customizer(Box::new(SetUp)).build(manager)?;
    let config = KafkaConfig::new(&bootstrap);
    let consumer = KafkaConsumer::new(config, topic.as_str()).topic(topic.as_str()).workers(1);
    consumer.migrate(&mut shop.connect()?)?;
    let (handled, seen) = channel();
    let running = consumer.start(pool, move |_, record| {
        let placed = decoder.decode_message(record.headers(), record.payload())?;
        handled.send(placed).map_err(HandlerError::permanent)
    })?;

    let mut events = (0..3).map(|_| seen.recv_timeout(DEADLINE)).collect::<Result<Vec<_>, _>>()?;
    events.sort_by_key(|placed| placed.as_ref().map(|placed| placed.order_id));
    let upcast = Placed { currency: "EUR".to_owned(), ..placed(1) };
    assert_eq!(events, [None, Some(upcast), Some(placed(2))]);

    let (parked, until) = (ParkedRecords::new(topic.as_str()), Instant::now() + DEADLINE);
    let unknown = loop {
        if let Some(record) = parked.list(&mut shop.connect()?, 0, 10)?.pop() {
            break record;
        }
        anyhow::ensure!(Instant::now() < until, "nothing was parked");
        thread::park_timeout(Duration::from_millis(20));
    };
    let fingerprint = PlacedV3::FINGERPRINTS.first().context("a fingerprint")?;
    assert!(unknown.error.contains(fingerprint) && unknown.error.contains("upcast::<Old, New>()"), "{unknown:?}");
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
    Ok(())
}
