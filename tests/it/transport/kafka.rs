//! Kafka against the shared broker: the cases that leave it as it is, and what is particular to a real one.

use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::MessageId;
use diesel_outbox::limits::MESSAGE_BYTES_MAX;
use diesel_outbox::testing::transport::{Outcomes, Seen, Stored, TransportUnderTest};
use diesel_outbox::transport::{FailureClass, KafkaConfig, KafkaTopic, KafkaTransport, LaneName, Run, Transport};
use xtask::parts;
use xtask::servers::Part;

use super::broker::{self, config, envelope, fresh, make, transport};

/// A broker that makes no topic by itself.
pub(super) struct Real {
    pub(super) bootstrap: String,
}

impl Real {
    pub(super) fn open() -> Option<Self> {
        parts::require(Part::Kafka).map(|bootstrap| Self { bootstrap })
    }

    /// Takes what the broker refuses.
    fn config(&self) -> KafkaConfig {
        config(&self.bootstrap).set("message.max.bytes", "2000000")
    }
}

#[async_trait]
impl TransportUnderTest for Real {
    fn transport(&self) -> Box<dyn Transport> {
        transport(self.config())
    }

    async fn stored(&self, topic: &str) -> Vec<Stored> {
        broker::read(&self.bootstrap, topic).into_iter().map(|(_, stored)| stored).collect()
    }

    async fn new_topic(&self) -> String {
        let name = fresh("taken");
        make(&self.bootstrap, &name, 3).await;
        name
    }

    fn patience(&self) -> Duration {
        broker::PATIENCE
    }

    fn payload_bytes_refused(&self) -> Option<usize> {
        Some(1_200_000)
    }

    async fn unknown_topic(&self) -> Option<String> {
        Some(fresh("unknown"))
    }

    async fn make_topic(&self, name: &str) -> bool {
        make(&self.bootstrap, name, 3).await;
        true
    }

    fn transport_with_queue_max(&self, messages: usize) -> Option<Box<dyn Transport>> {
        Some(transport(self.config().set("queue.buffering.max.messages", messages.to_string())))
    }
}

mod conformance {
    async fn open() -> Option<super::Real> {
        super::Real::open()
    }

    diesel_outbox::transport_conformance_tests! { open;
        prepares_and_probes,
        reports_one_outcome_each,
        keeps_the_order_of_a_key,
        stores_what_was_sent,
        flush_waits_for_every_outcome,
        refuses_what_is_too_large_and_nothing_else,
        an_unknown_topic_is_of_the_topic,
        a_full_queue_is_busy,
        a_fenced_lane_refuses_the_one_before_it,
        a_fenced_lane_keeps_the_order_of_a_run,
        a_refused_message_stops_its_run_and_no_other,
    }
}

#[tokio::test]
async fn a_message_at_the_limit_is_taken() {
    let Some(broker) = Real::open() else { return };
    let (kafka, topic) = (transport(config(&broker.bootstrap)), broker.new_topic().await);
    let (mut envelope, outcomes) = (envelope(&topic, Some("key")), Outcomes::new());
    envelope.kind = "order.placed".to_owned();
    envelope.payload = Some(vec![b'x'; MESSAGE_BYTES_MAX - "key".len()]);
    assert_eq!(envelope.size_bytes(), MESSAGE_BYTES_MAX);
    outcomes.send(&*kafka, 0, envelope);
    assert_eq!(outcomes.wait_for(1, broker::PATIENCE).await[0].1, Seen::Delivered);
}

/// By default a topic refuses what is an hour ahead of the broker's clock. Here it refuses what is behind it, and the client holds the
/// message back until it is.
#[tokio::test]
async fn a_time_that_the_topic_refuses_is_about_clocks_and_not_about_the_message() {
    let Some(broker) = Real::open() else { return };
    let topic = fresh("clocks");
    let made = KafkaTopic::new(&*topic).partitions(1).config("message.timestamp.before.max.ms", "0");
    let config = config(&broker.bootstrap).set("linger.ms", "100");
    let kafka = KafkaTransport::builder(config).create_topic(made).build().expect("a transport");
    kafka.prepare(&[]).await.expect("made");
    let outcomes = Outcomes::new();
    outcomes.send(&kafka, 0, envelope(&topic, Some("key")));
    let (_, seen) = outcomes.wait_for(1, broker::PATIENCE).await.remove(0);
    let Seen::Failed { class, text } = seen else { panic!("{seen:?}") };
    assert_eq!(class, FailureClass::Topic, "{text}");
    assert!(text.contains("clock") && text.contains("message.timestamp.type"), "{text}");
}

#[tokio::test]
async fn lanes_whose_names_read_alike_do_not_fence_each_other() {
    let Some(broker) = Real::open() else { return };
    let (kafka, outcomes, tag) = (broker.transport(), Outcomes::new(), MessageId::new());
    let lane =
        |outbox: &str, topic: &str| LaneName { outbox: format!("{tag}-{outbox}").into(), topic: topic.into(), lane: 0 };
    let orders = fresh("orders");
    let west_orders = format!("west-{orders}");
    make(&broker.bootstrap, &west_orders, 1).await;
    let eu = kafka.fence(lane("eu", &west_orders)).await.expect("fenced");
    let _eu_west = kafka.fence(lane("eu-west", &orders)).await.expect("fenced");
    outcomes.send_fenced(&*eu, &Run::new(), [(0, envelope(&west_orders, Some("key")))]);
    assert_eq!(outcomes.wait_for(1, broker::PATIENCE).await[0].1, Seen::Delivered);
}
