//! One relay with a transport of every kind, a topic for each, out of one real database.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use diesel::connection::Connection as _;
use diesel::pg::PgConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::relay::{Relay, TransportStatus};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{HttpTarget, HttpTransport, KafkaTransport, RocketMqTransport};
use diesel_outbox::{Message, MessageId, Outbox, Topic};
use xtask::servers::rocketmq::{Flush, create_topic};
use xtask::servers::{Kafka, Rocketmq, ServerKind, kafka};
use xtask::test_servers;

use super::http::receiver::Receiver;
use super::rocketmq_down::OwnBroker;
use super::{broker, rocketmq, rocketmq_broker};
use crate::outbox::databases::fresh_postgres;

/// A real broker that starts again, and what waited for it.
const DEADLINE: Duration = Duration::from_secs(90);

/// The transports, in the order of everything here that there is one of for each.
const NAMES: [&str; 3] = ["kafka", "rocketmq", "http"];
const KAFKA: usize = 0;
const ROCKETMQ: usize = 1;
const HTTP: usize = 2;

/// Messages that one transaction enqueues for each transport.
const EACH: usize = 100;

type Committed = [BTreeSet<MessageId>; 3];

struct Fixture {
    database_url: String,
    bootstrap: String,
    name_server: String,
    receiver: Receiver,
    topics: [String; 3],
}

impl Fixture {
    /// With a database and topics of its own; `None` where there is no such database.
    async fn open(bootstrap: String, name_server: String) -> Option<Self> {
        let database_url = fresh_postgres()?;
        let topics = [broker::unique_name("orders"), rocketmq::unique_name("bills"), "webhooks".to_owned()];
        broker::make(&bootstrap, &topics[KAFKA], 3).await;
        create_topic(&name_server, &topics[ROCKETMQ]).expect("a topic");
        Some(Self { database_url, bootstrap, name_server, receiver: Receiver::start(), topics })
    }

    fn outbox(&self) -> Outbox {
        let builder = NAMES
            .iter()
            .zip(&self.topics)
            .fold(Outbox::builder(), |builder, (name, topic)| builder.topic(Topic::new(topic.as_str()).via(*name)));
        builder.build().expect("an outbox")
    }

    /// Large enough for three transports.
    fn pool(&self) -> Pool<ConnectionManager<PgConnection>> {
        Pool::builder().max_size(16).build(ConnectionManager::new(&self.database_url)).expect("a pool")
    }

    async fn relay(&self, outbox: &Outbox) -> Relay {
        let kafka = KafkaTransport::new(broker::config(&self.bootstrap)).expect("a transport");
        let rocketmq = RocketMqTransport::new(rocketmq::config(&self.name_server)).expect("a transport");
        let http = HttpTransport::builder().default_target(HttpTarget::new(self.receiver.url("/")));
        let relay = outbox.relay().store(PostgresStore::new(self.pool()));
        let relay = relay.transport_named(NAMES[KAFKA], kafka).transport_named(NAMES[ROCKETMQ], rocketmq);
        let relay = relay.transport_named(NAMES[HTTP], http.build().expect("a transport"));
        relay.start().await.expect("a relay starts without its brokers, too")
    }

    /// Enqueues messages of every topic in one transaction.
    fn commit(&self, outbox: &Outbox, committed: &mut Committed) {
        let mut conn = PgConnection::establish(&self.database_url).expect("connect");
        let ids = conn.transaction(|conn| {
            let mut ids = Vec::new();
            for topic in &self.topics {
                let message = |number: usize| Message::to(topic.as_str()).key((number % 5).to_string());
                ids.push(outbox.enqueue_all(conn, (0..EACH).map(message))?);
            }
            Ok::<_, diesel::result::Error>(ids)
        });
        for (committed, ids) in committed.iter_mut().zip(ids.expect("commit")) {
            committed.extend(ids);
        }
    }

    /// The messages that have arrived by way of a transport.
    fn arrived(&self, at: usize) -> BTreeSet<MessageId> {
        match at {
            KAFKA => {
                let stored = broker::read(&self.bootstrap, &self.topics[KAFKA]);
                stored.iter().filter_map(|(_, stored)| stored.message_id()).collect()
            }
            ROCKETMQ => {
                let stored = rocketmq_broker::read(&self.name_server, &self.topics[ROCKETMQ]);
                stored.iter().filter_map(|message| message.stored().message_id()).collect()
            }
            _ => {
                let received = self.receiver.received();
                let ids = received.iter().map(|request| request.header("idempotency-key").expect("an id"));
                ids.map(|id| id.parse().expect("a message's id")).collect()
            }
        }
    }

    /// Everything is there, and nothing else, and the relay ends in order.
    async fn has_all(&self, relay: Relay, committed: &Committed) {
        until_live(&relay, "everything is sent", 0).await;
        assert_eq!(relay.backlog().await.expect("the backlog").dead_letters(), 0);
        assert!(relay.shutdown(DEADLINE).await.is_clean());
        for (at, committed) in committed.iter().enumerate() {
            assert_eq!(self.arrived(at), *committed, "{}", NAMES[at]);
        }
    }
}

async fn until_live(relay: &Relay, what: &str, live: usize) {
    let end = Instant::now() + DEADLINE;
    loop {
        let backlog = relay.backlog().await.expect("the backlog");
        if backlog.live() == live {
            return;
        }
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}: {backlog:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_down(relay: &Relay, at: usize) -> bool {
    let status = relay.status();
    matches!(status.transport_named(NAMES[at]).expect("a transport").status, TransportStatus::Down { .. })
}

/// A relay starts while one of the three is away. The others go on, and what is for that one arrives when it is there.
async fn goes_on_without(fixture: &Fixture, missing: usize, go_up: impl FnOnce()) {
    let (outbox, mut committed) = (fixture.outbox(), Committed::default());
    fixture.commit(&outbox, &mut committed);
    let relay = fixture.relay(&outbox).await;
    fixture.commit(&outbox, &mut committed);
    until_live(&relay, "the others go on", 2 * EACH).await;
    let of_the_missing = relay.backlog().await.expect("the backlog");
    let left = of_the_missing.topic(&fixture.topics[missing]).map(|of| of.live);
    assert_eq!(left, Some(2 * EACH), "{of_the_missing:?}");
    let end = Instant::now() + DEADLINE;
    while !is_down(&relay, missing) {
        assert!(Instant::now() < end, "{} is away, and its breaker is not open", NAMES[missing]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let others = (0..NAMES.len()).filter(|at| *at != missing);
    others.for_each(|at| assert!(!is_down(&relay, at), "{} is there", NAMES[at]));
    go_up();
    fixture.commit(&outbox, &mut committed);
    fixture.has_all(relay, &committed).await;
}

fn shared_kafka() -> Option<String> {
    test_servers::shared_or_skip(ServerKind::Kafka)
}

fn shared_rocketmq() -> Option<String> {
    test_servers::shared_or_skip(ServerKind::Rocketmq)
}

async fn on_shared_brokers() -> Option<Fixture> {
    Fixture::open(shared_kafka()?, shared_rocketmq()?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_rocketmq_and_http_are_served_by_one_relay() {
    let Some(fixture) = on_shared_brokers().await else { return };
    let (outbox, mut committed) = (fixture.outbox(), Committed::default());
    fixture.commit(&outbox, &mut committed);
    let relay = fixture.relay(&outbox).await;
    (0..5).for_each(|_| fixture.commit(&outbox, &mut committed));
    fixture.has_all(relay, &committed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_starts_without_kafka_and_serves_the_others() {
    let Some(mut own) = test_servers::own_or_skip(Kafka::start(&kafka::Options::default())) else { return };
    let Some(name_server) = shared_rocketmq() else { return };
    let Some(fixture) = Fixture::open(own.bootstrap(), name_server).await else { return };
    own.kill9().expect("kill -9");
    goes_on_without(&fixture, KAFKA, || own.start_again().expect("start again")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_starts_without_rocketmq_and_serves_the_others() {
    let Some(own) = OwnBroker::open(Flush::Sync) else { return };
    let Some(bootstrap) = shared_kafka() else { return };
    let Some(fixture) = Fixture::open(bootstrap, own.name_server.clone()).await else { return };
    own.with(Rocketmq::kill9).expect("kill -9");
    own.with(Rocketmq::kill9_name_server).expect("kill -9");
    goes_on_without(&fixture, ROCKETMQ, || own.with(Rocketmq::start_again).expect("start again")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_starts_without_its_receiver_of_webhooks_and_serves_the_others() {
    let Some(fixture) = on_shared_brokers().await else { return };
    fixture.receiver.kill();
    goes_on_without(&fixture, HTTP, || fixture.receiver.restart()).await;
}
