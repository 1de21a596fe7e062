//! The brokers, as the relay and the consumers reach them.

use std::time::Duration;

use diesel_outbox::relay::Relay;
use diesel_outbox::transport::{
    KafkaConfig, KafkaTopic, KafkaTransport, RocketMqConfig, RocketMqTopic, RocketMqTransport,
};

use super::Places;
use crate::Failure;
use crate::broker::{Broker, Brokers, Kind};
use crate::domain::{ORDERS, PAYMENT_TERMS};
use crate::shop::{ROCKETMQ, outbox, postgres, producer, relay_limits};

/// Of each topic.
const PARTITIONS: u8 = 6;

/// The relay of a shop.
pub(super) async fn relay(places: &Places) -> Result<Relay, Failure> {
    let store = postgres::store(&places.postgres)?;
    let relay = outbox(places.brokers)?.relay().store(store).limits(relay_limits());
    let relay = match places.brokers {
        Brokers::Kafka => relay.transport(kafka(places)?),
        Brokers::RocketMq => relay.transport(rocketmq(places)?),
        Brokers::Mixed => relay.transport(kafka(places)?).transport_named(ROCKETMQ, rocketmq(places)?),
    };
    Ok(relay.start().await?)
}

/// The broker of a topic, for a consumer.
pub(super) fn broker(places: &Places, topic: &str) -> Broker {
    match places.brokers.of(topic) {
        Kind::Kafka => {
            let config = KafkaConfig::new(&places.kafka);
            Broker::Kafka(config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500"))
        }
        Kind::RocketMq => Broker::RocketMq(Box::new(rocketmq_config(places))),
    }
}

fn kafka(places: &Places) -> Result<KafkaTransport, Failure> {
    let topics = topics(places, Kind::Kafka);
    let topics = topics.map(|name| KafkaTopic::new(name).partitions(PARTITIONS.into()).replication(1));
    Ok(topics
        .fold(KafkaTransport::builder(producer(&places.kafka)), |builder, topic| builder.create_topic(topic))
        .build()?)
}

/// No topic has a delay of the broker: the outbox holds a payment term in its table until it is over.
fn rocketmq(places: &Places) -> Result<RocketMqTransport, Failure> {
    let topics = topics(places, Kind::RocketMq).map(|name| RocketMqTopic::new(name).queues(PARTITIONS.into()));
    let builder = RocketMqTransport::builder(rocketmq_config(places));
    Ok(topics.fold(builder, |builder, topic| builder.create_topic(topic)).build()?)
}

/// With short times, as [`producer`] has them: what became of a message must be known within the relay's lease.
fn rocketmq_config(places: &Places) -> RocketMqConfig {
    let config = RocketMqConfig::new(&places.rocketmq).group("shop");
    config.request_timeout(Duration::from_secs(1)).delivery_timeout(Duration::from_secs(5))
}

fn topics(places: &Places, kind: Kind) -> impl Iterator<Item = &'static str> {
    let brokers = places.brokers;
    [ORDERS, PAYMENT_TERMS].into_iter().filter(move |topic| brokers.of(topic) == kind)
}
