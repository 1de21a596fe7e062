//! The whole way from a real database to RocketMQ: a broker that is killed under an ordered topic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use diesel::connection::Connection as _;
use diesel::pg::PgConnection;
use diesel_outbox::relay::{Relay, TransportStatus};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::testing::TransportUnderTest as _;
use diesel_outbox::transport::RocketMqTransport;
use diesel_outbox::{Message, MessageId, Outbox, Topic};
use xtask::servers::Rocketmq;
use xtask::servers::rocketmq::Flush;

use super::broker::TIMEOUT;
use super::rocketmq::config;
use super::rocketmq_broker;
use super::rocketmq_down::OwnBroker;
use crate::outbox::databases::{fresh_postgres, pool};

const DEADLINE: Duration = Duration::from_secs(90);
const KEYS: usize = 30;

/// Messages of each key, in their order.
type ByKey = BTreeMap<String, Vec<MessageId>>;

/// Commits so many messages of every key, one of each key after the other.
fn commit(outbox: &Outbox, conn: &mut PgConnection, topic: &str, each: usize, committed: &mut ByKey) {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("account-{key}")).collect();
    for _ in 0..each {
        let messages = keys.iter().map(|key| Message::to(topic).key(key.as_str()));
        let ids = outbox.enqueue_all(conn, messages).expect("enqueue");
        for (key, id) in keys.iter().zip(ids) {
            committed.entry(key.clone()).or_default().push(id);
        }
    }
}

async fn until(what: &str, state: impl AsyncFn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state().await {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn live(relay: &Relay) -> usize {
    relay.backlog().await.expect("the backlog").live()
}

/// What the broker has of each key; a message that came again at once counts once, one that came later does not.
fn stored(own: &OwnBroker, topic: &str) -> ByKey {
    let mut stored = ByKey::new();
    for message in rocketmq_broker::read(&own.name_server, topic) {
        let id = message.stored().message_id().expect("an id");
        let of_key = stored.entry(message.properties["__SHARDINGKEY"].clone()).or_default();
        if of_key.last() != Some(&id) {
            of_key.push(id);
        }
    }
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_under_an_ordered_topic_loses_nothing_and_keeps_the_order() {
    let Some(own) = OwnBroker::open(Flush::Sync) else { return };
    let Some(url) = fresh_postgres() else { return };
    let (topic, mut committed) = (own.new_topic().await, ByKey::new());
    let builder = Outbox::builder().topic(Topic::new(topic.as_str()).ordered_by_key());
    let outbox = builder.allow_outside_transaction().build().expect("an outbox");
    let mut conn = PgConnection::establish(&url).expect("connect");
    let rocketmq = RocketMqTransport::new(config(&own.name_server)).expect("a transport");
    let relay = outbox.relay().store(PostgresStore::new(pool::<PgConnection>(&url))).transport(rocketmq);
    let relay = relay.start().await.expect("a relay");
    let mut waiting = 0;
    for _ in 0..2 {
        commit(&outbox, &mut conn, &topic, 100, &mut committed);
        let all = waiting + 100 * KEYS;
        until("some are sent", async || live(&relay).await + 200 < all).await;
        own.with(Rocketmq::kill9).expect("kill -9");
        commit(&outbox, &mut conn, &topic, 10, &mut committed);
        until("the breaker is open", async || matches!(relay.status().transport, TransportStatus::Down { .. })).await;
        waiting = live(&relay).await;
        assert!(waiting >= 10 * KEYS, "nobody takes them");
        own.with(Rocketmq::start_again).expect("start again");
    }
    until("everything is settled", async || live(&relay).await == 0).await;
    assert_eq!(relay.backlog().await.expect("the backlog").dead_letters(), 0);
    assert!(relay.shutdown(TIMEOUT).await.is_clean());
    assert_eq!(stored(&own, &topic), committed, "nothing is lost, and each key is in order");
}
