//! RocketMQ against the shared broker: the cases that leave it as it is, and what is particular to it.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, RocketMqConfig, RocketMqTopic, RocketMqTransport, Transport};
use diesel_outbox::{MessageId, Topic};
use xtask::servers::ServerKind;
use xtask::servers::rocketmq::create_topic;
use xtask::test_servers;

use super::broker::{TIMEOUT, envelope};
use super::rocketmq_broker;

/// A broker that makes no topic by itself.
pub(super) struct SharedBroker {
    pub(super) name_server: String,
}

/// Settings with short time-outs, for brokers that are there.
pub(super) fn config(name_server: &str) -> RocketMqConfig {
    let config = RocketMqConfig::new(name_server);
    config.request_timeout(Duration::from_secs(1)).delivery_timeout(Duration::from_secs(10))
}

pub(super) fn transport(config: RocketMqConfig) -> Box<dyn Transport> {
    Box::new(RocketMqTransport::new(config).expect("a transport"))
}

/// Topics of RocketMQ have no dots, and 127 characters.
pub(super) fn unique_name(name: &str) -> String {
    format!("{name}-{}", MessageId::new())
}

impl SharedBroker {
    pub(super) fn open() -> Option<Self> {
        test_servers::shared_or_skip(ServerKind::Rocketmq).map(|name_server| Self { name_server })
    }
}

#[async_trait]
impl TransportUnderTest for SharedBroker {
    fn transport(&self) -> Box<dyn Transport> {
        transport(config(&self.name_server).message_bytes_max(8 << 20))
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        rocketmq_broker::read(&self.name_server, topic).iter().map(rocketmq_broker::Message::stored).collect()
    }

    async fn new_topic(&self) -> String {
        let name = unique_name("taken");
        create_topic(&self.name_server, &name).expect("a topic");
        name
    }

    fn max_wait(&self) -> Duration {
        TIMEOUT
    }

    fn oversized_payload_bytes(&self) -> Option<usize> {
        Some(5 << 20)
    }

    async fn unknown_topic(&self) -> Option<String> {
        Some(unique_name("unknown"))
    }

    async fn create_topic(&self, name: &str) -> bool {
        create_topic(&self.name_server, name).expect("a topic");
        true
    }

    fn transport_with_queue_max(&self, messages: usize) -> Option<Box<dyn Transport>> {
        Some(transport(config(&self.name_server).in_flight_max(messages)))
    }
}

mod conformance {
    async fn open() -> Option<super::SharedBroker> {
        super::SharedBroker::open()
    }

    diesel_outbox::transport_conformance_tests! { open;
        prepare_is_idempotent_and_probe_succeeds,
        each_message_gets_one_outcome,
        order_per_key_is_kept,
        stored_messages_match_sent_messages,
        flush_waits_for_every_outcome,
        only_oversized_messages_are_refused,
        unknown_topic_is_a_topic_failure,
        full_queue_is_busy,
    }
}

#[tokio::test]
async fn a_message_that_the_client_would_not_send_is_refused() {
    let Some(broker) = SharedBroker::open() else { return };
    let (rocketmq, topic) = (transport(config(&broker.name_server).message_bytes_max(100)), broker.new_topic().await);
    let outcomes = OutcomeRecorder::new();
    let (mut large, mut wide) = (envelope(&topic, None), envelope(&topic, None));
    large.payload = Some(vec![b'x'; 101]);
    wide.headers.push("wide", "x".repeat(40_000));
    for (id, envelope) in (0..).zip([large, envelope(&topic, None), wide]) {
        outcomes.send(&*rocketmq, id, envelope);
    }
    outcomes.wait_for(3, TIMEOUT).await;
    let class = |id| outcomes.of(id).and_then(|seen| seen.class());
    assert_eq!(
        [class(0), class(1), class(2)],
        [Some(FailureClass::RecordRefused), None, Some(FailureClass::RecordRefused)]
    );
    outcomes.send(&*rocketmq, 3, envelope("a.topic.with.dots", None));
    assert_eq!(class(3), Some(FailureClass::Topic), "brokers have no such names");
}

#[tokio::test]
async fn a_namespace_stands_before_the_topic() {
    let Some(broker) = SharedBroker::open() else { return };
    let name = unique_name("orders");
    create_topic(&broker.name_server, &format!("shop%{name}")).expect("a topic");
    let (rocketmq, outcomes) = (transport(config(&broker.name_server).namespace("shop")), OutcomeRecorder::new());
    outcomes.send(&*rocketmq, 0, envelope(&name, Some("key")));
    assert_eq!(outcomes.wait_for(1, TIMEOUT).await[0].1, RecordedOutcome::Delivered);
    assert_eq!(rocketmq_broker::read(&broker.name_server, &format!("shop%{name}")).len(), 1);
}

#[tokio::test]
async fn keys_are_spread_over_the_queues_and_stay_there() {
    let Some(broker) = SharedBroker::open() else { return };
    let (rocketmq, topic, outcomes) = (broker.transport(), broker.new_topic().await, OutcomeRecorder::new());
    // Where Java's String.hashCode puts them among 4.
    let places = [("a", 1), ("message", 3), ("polygenelubricants", 0), ("订单", 3)];
    for (id, (key, _)) in (0..).zip(places.iter().cycle().take(12)) {
        outcomes.send(&*rocketmq, id, envelope(&topic, Some(key)));
    }
    (12..20).for_each(|id| outcomes.send(&*rocketmq, id, envelope(&topic, None)));
    outcomes.wait_for(20, TIMEOUT).await;
    let stored = rocketmq_broker::read(&broker.name_server, &topic);
    for (key, queue) in places {
        let of_key =
            stored.iter().filter(|message| message.properties.get("__SHARDINGKEY").is_some_and(|held| held == key));
        assert_eq!(of_key.map(|message| message.queue).collect::<Vec<_>>(), [queue; 3], "{key}");
    }
    let without = stored.iter().filter(|message| !message.properties.contains_key("__SHARDINGKEY"));
    let queues: BTreeSet<_> = without.map(|message| message.queue).collect();
    assert!(queues.len() > 1, "messages without a key are in {queues:?} only");
}

#[tokio::test]
async fn a_broker_holds_the_messages_of_a_delayed_topic() {
    let Some(broker) = SharedBroker::open() else { return };
    let topic = broker.new_topic().await;
    let config = config(&broker.name_server).broker_delay(&*topic, Duration::from_secs(2));
    let (rocketmq, outcomes) = (transport(config), OutcomeRecorder::new());
    let sent_at = std::time::Instant::now();
    (0..3).for_each(|id| outcomes.send(&*rocketmq, id, envelope(&topic, Some("key"))));
    let seen = outcomes.wait_for(3, TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{seen:?}");
    assert_eq!(rocketmq_broker::read(&broker.name_server, &topic).len(), 0, "it is held");
    while rocketmq_broker::read(&broker.name_server, &topic).len() < 3 {
        assert!(sent_at.elapsed() < TIMEOUT, "they never come");
        tokio::task::yield_now().await;
    }
    assert!(sent_at.elapsed() >= Duration::from_secs(1), "after {:?}", sent_at.elapsed());
}

async fn prepared(broker: &SharedBroker, topics: Vec<(RocketMqTopic, bool)>) -> Result<(), (FailureClass, String)> {
    let builder =
        topics.into_iter().fold(RocketMqTransport::builder(config(&broker.name_server)), |builder, (topic, create)| {
            if create { builder.create_topic(topic) } else { builder.check_topic(topic) }
        });
    let rocketmq = builder.build().expect("a transport");
    rocketmq.prepare(&[Topic::new("any")]).await.map_err(|error| (error.class(), error.to_string()))
}

#[tokio::test]
async fn topics_are_created_as_configured_and_differences_are_named() {
    let Some(broker) = SharedBroker::open() else { return };
    let (name, missing) = (unique_name("made"), unique_name("missing"));
    let wanted = RocketMqTopic::new(&*name).queues(3).attribute("message.type", "FIFO");
    prepared(&broker, vec![(wanted.clone(), true)]).await.expect("made");
    prepared(&broker, vec![(wanted.clone(), true), (wanted, false)]).await.expect("as it was made");
    let other = RocketMqTopic::new(&*name).queues(5).attribute("message.type", "NORMAL");
    let nowhere = RocketMqTopic::new(&*name).cluster("elsewhere");
    let topics = vec![(other, true), (RocketMqTopic::new(&*missing), false), (nowhere, true)];
    let (class, text) = prepared(&broker, topics).await.expect_err("other than wanted");
    assert_eq!(class, FailureClass::Topic);
    for difference in [
        format!("topic {name:?} on broker-a: queues to write wanted 5, found 3"),
        format!("topic {name:?} on broker-a: queues to read wanted 5, found 3"),
        format!("topic {name:?} on broker-a: message.type wanted NORMAL, found FIFO"),
        format!("topic {missing:?} does not exist on broker-a"),
        format!("topic {name:?}: its cluster has no brokers"),
    ] {
        assert!(text.contains(&difference), "{difference} is not in: {text}");
    }
}

#[tokio::test]
async fn an_invalid_topic_name_prevents_the_start() {
    let rocketmq = transport(config("127.0.0.1:1"));
    let refused = rocketmq.prepare(&[Topic::new("orders.placed")]).await.expect_err("a dot");
    assert_eq!(refused.class(), FailureClass::Topic, "{refused}");
    let absent = rocketmq.prepare(&[Topic::new("orders")]).await.expect_err("nobody there");
    assert_eq!(absent.class(), FailureClass::Connection, "{absent}");
}
