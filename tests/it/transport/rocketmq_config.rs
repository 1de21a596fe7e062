//! What a setting of RocketMQ does: refused before anything is sent, or seen at the broker.

use std::time::Duration;

use diesel_outbox::relay::StartError;
use diesel_outbox::store::MemoryStore;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage};
use diesel_outbox::transport::{
    FailureClass, RocketMqConfigError, RocketMqTopic, RocketMqTransport, Transport, header,
};
use diesel_outbox::{Outbox, Topic};

use super::broker::{TIMEOUT, envelope};
use super::rocketmq::{SharedBroker, config, transport, unique_name};
use super::rocketmq_broker;

#[test]
fn a_delay_below_the_resolution_of_brokers_is_refused() {
    let config = config("127.0.0.1:1").broker_delay("orders", Duration::from_millis(999));
    let refused = RocketMqTransport::new(config).expect_err("no delay at all");
    assert!(matches!(refused, RocketMqConfigError::Delay { .. }), "{refused}");
    assert!(refused.to_string().contains("\"orders\""), "{refused}");
}

/// Whether there is a broker or not: what cannot keep the order is no outage that could end.
#[tokio::test]
async fn a_relay_does_not_start_with_an_ordered_topic_that_the_broker_delays() {
    let delayed = || config("127.0.0.1:1").broker_delay("orders", Duration::from_secs(1));
    let start = async |topic: Topic| {
        let outbox = Outbox::builder().topic(topic).build().expect("an outbox");
        let rocketmq = RocketMqTransport::new(delayed()).expect("a transport");
        outbox.relay().store(MemoryStore::new()).transport(rocketmq).start().await
    };
    let refused = start(Topic::new("orders").ordered_by_key()).await.expect_err("order and delay");
    let StartError::Transport { error, .. } = &refused else { panic!("{refused}") };
    assert_eq!(error.class(), FailureClass::Topic, "{error}");
    assert!(error.to_string().contains("broker_delay"), "{error}");
    let relay = start(Topic::new("orders")).await.expect("a relay without its broker");
    assert!(relay.shutdown(TIMEOUT).await.is_clean());
}

#[tokio::test]
async fn a_topic_is_created_in_its_namespace() {
    let Some(broker) = SharedBroker::open() else { return };
    let (name, namespaced) = (unique_name("orders"), || config(&broker.name_server).namespace("shop"));
    let wanted = RocketMqTopic::new(name.as_str()).queues(4);
    let rocketmq = RocketMqTransport::builder(namespaced()).create_topic(wanted.clone()).build().expect("a transport");
    rocketmq.prepare(&[Topic::new(name.as_str())]).await.expect("it is made");
    let outcomes = OutcomeRecorder::new();
    outcomes.send(&rocketmq, 0, envelope(&name, Some("key")));
    assert_eq!(outcomes.wait_for(1, TIMEOUT).await[0].1, RecordedOutcome::Delivered);
    assert_eq!(rocketmq_broker::read(&broker.name_server, &format!("shop%{name}")).len(), 1);
    let checks = |config| RocketMqTransport::builder(config).check_topic(wanted.clone()).build().expect("a transport");
    checks(namespaced()).prepare(&[]).await.expect("it is there");
    let outside = checks(config(&broker.name_server)).prepare(&[]).await.expect_err("it is not there without it");
    assert_eq!(outside.class(), FailureClass::Topic, "{outside}");
}

#[tokio::test]
async fn a_tag_comes_from_its_header_or_is_the_kind() {
    let Some(broker) = SharedBroker::open() else { return };
    let topic = unique_name("tagged");
    xtask::servers::rocketmq::create_topic(&broker.name_server, &topic).expect("a topic");
    let rocketmq = transport(config(&broker.name_server).tag_from_header("tag"));
    let outcomes = OutcomeRecorder::new();
    for (id, tag) in (0..).zip([Some("urgent"), None]) {
        let mut message = envelope(&topic, None);
        message.kind = "order.placed".to_owned();
        if let Some(tag) = tag {
            message.headers.push("tag", tag);
        }
        outcomes.send(&*rocketmq, id, message);
    }
    let seen = outcomes.wait_for(2, TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{seen:?}");
    let stored = rocketmq_broker::read(&broker.name_server, &topic);
    let mut tags: Vec<_> = stored.iter().map(|message| message.properties["TAGS"].as_str()).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["order.placed", "urgent"]);
    assert!(stored.iter().all(|message| message.properties[header::KIND] == "order.placed"));
}

/// As properties some would do something there: hold a message, or show it to nobody.
#[tokio::test]
async fn headers_with_reserved_names_arrive_and_have_no_effect() {
    const NAMES: [&str; 8] = [
        "INNER_NUM",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "TRANSACTION_CHECK_TIMES",
        "TRACE_CONTEXT",
        "DELAY",
        "TRAN_MSG",
        "__STARTDELIVERTIME",
    ];
    let Some(broker) = SharedBroker::open() else { return };
    let topic = unique_name("names");
    xtask::servers::rocketmq::create_topic(&broker.name_server, &topic).expect("a topic");
    let (rocketmq, outcomes) = (transport(config(&broker.name_server)), OutcomeRecorder::new());
    let messages = NAMES.map(|name| {
        let mut message = envelope(&topic, Some("key"));
        message.headers.push(name, "3");
        message
    });
    (0..).zip(&messages).for_each(|(id, message)| outcomes.send(&*rocketmq, id, message.clone()));
    let seen = outcomes.wait_for(NAMES.len(), TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{seen:?}");
    let stored = rocketmq_broker::read(&broker.name_server, &topic);
    assert_eq!(stored.len(), NAMES.len(), "{stored:?}");
    for (name, message) in NAMES.iter().zip(&messages) {
        let is_it = |stored: &&rocketmq_broker::Message| stored.stored().message_id() == Some(message.message_id);
        let found = stored.iter().find(is_it).unwrap_or_else(|| panic!("{name} is not stored"));
        assert_eq!(found.stored().headers, StoredMessage::of(message).headers, "{name}");
        assert_ne!(found.properties.get(*name).map(String::as_str), Some("3"), "{name}");
    }
}
