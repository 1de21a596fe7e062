//! Topics made and checked at start, on the shared broker.

use diesel_outbox::Topic;
use diesel_outbox::testing::TransportUnderTest as _;
use diesel_outbox::transport::{FailureClass, KafkaTopic, KafkaTransport, KafkaTransportBuilder, Transport as _};

use super::broker::{config, unique_name};
use super::kafka::SharedBroker;

fn prepared(
    broker: &SharedBroker,
    register: impl FnOnce(KafkaTransportBuilder) -> KafkaTransportBuilder,
) -> Result<(), (FailureClass, String)> {
    let kafka = register(KafkaTransport::builder(config(&broker.bootstrap))).build().expect("a transport");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(kafka.prepare(&[])).map_err(|error| (error.class(), error.to_string()))
}

#[test]
fn a_missing_topic_is_created_as_configured_and_found_again() {
    let Some(broker) = SharedBroker::open() else { return };
    let wanted = KafkaTopic::new(unique_name("made")).partitions(5).replication(1).config("retention.ms", "86400000");
    prepared(&broker, |kafka| kafka.create_topic(wanted.clone())).expect("made");
    prepared(&broker, |kafka| kafka.create_topic(wanted.clone())).expect("there already");
    prepared(&broker, |kafka| kafka.check_topic(wanted)).expect("as it was made");
}

/// One of them makes it, and to the others it is there already, although the broker does not know it for a moment.
#[test]
fn nodes_that_start_at_once_create_the_topic_once() {
    let Some(broker) = SharedBroker::open() else { return };
    for round in 0..5 {
        let wanted = KafkaTopic::new(unique_name(&format!("at_once_{round}"))).partitions(3).replication(1);
        let at_once = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            let start = || {
                at_once.wait();
                prepared(&broker, |kafka| kafka.create_topic(wanted.clone()))
            };
            let starts: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
            for started in starts {
                started.join().expect("no panic").expect("made or found");
            }
        });
    }
}

#[test]
fn unset_topic_settings_are_the_brokers_defaults() {
    let Some(broker) = SharedBroker::open() else { return };
    let name = unique_name("default");
    prepared(&broker, |kafka| kafka.create_topic(KafkaTopic::new(&*name))).expect("made");
    prepared(&broker, |kafka| kafka.check_topic(KafkaTopic::new(&*name).partitions(3).replication(1))).expect("as set");
}

#[test]
fn every_difference_is_named() {
    let Some(broker) = SharedBroker::open() else { return };
    let (first, second, missing) = (unique_name("first"), unique_name("second"), unique_name("missing"));
    prepared(&broker, |kafka| {
        let first = KafkaTopic::new(&*first).partitions(2).config("cleanup.policy", "delete");
        kafka.create_topic(first).create_topic(KafkaTopic::new(&*second).partitions(1))
    })
    .expect("made");
    let (class, text) = prepared(&broker, |kafka| {
        let first = KafkaTopic::new(&*first).partitions(6).config("cleanup.policy", "compact").config("no.such", "1");
        let second = KafkaTopic::new(&*second).partitions(1).replication(3);
        kafka.create_topic(first).check_topic(second).check_topic(KafkaTopic::new(&*missing))
    })
    .expect_err("other than wanted");
    assert_eq!(class, FailureClass::Topic);
    for difference in [
        format!("topic {first:?}: partitions wanted 6, found 2"),
        format!("topic {first:?}: cleanup.policy wanted compact, found delete"),
        format!("topic {first:?}: no.such wanted 1, found nothing"),
        format!("topic {second:?}: replication wanted 3, found 1"),
        format!("topic {missing:?} does not exist"),
    ] {
        assert!(text.contains(&difference), "{difference} is not in: {text}");
    }
    assert!(!text.contains("partitions wanted 1"), "a topic that fits is not listed: {text}");
}

#[test]
fn a_topic_the_cluster_cannot_create_is_an_error() {
    let Some(broker) = SharedBroker::open() else { return };
    let wanted = KafkaTopic::new(unique_name("three")).replication(3);
    let (class, text) = prepared(&broker, |kafka| kafka.create_topic(wanted)).expect_err("one broker");
    assert_eq!(class, FailureClass::Topic);
    assert!(text.contains("create topic") && text.contains("InvalidReplicationFactor"), "{text}");
}

#[tokio::test]
async fn an_unregistered_topic_may_be_missing() {
    let Some(broker) = SharedBroker::open() else { return };
    broker.transport().prepare(&[Topic::new(unique_name("unknown"))]).await.expect("its messages will say so");
}

#[tokio::test]
async fn without_a_broker_it_is_an_outage() {
    let topic = KafkaTopic::new("orders");
    let kafka = KafkaTransport::builder(config("127.0.0.1:1")).create_topic(topic).build().expect("a transport");
    let error = kafka.prepare(&[]).await.expect_err("nobody is there");
    assert_eq!(error.class(), FailureClass::Connection);
    assert!(error.to_string().contains("Connection refused"), "{error}");
}
