//! Kafka against the shared broker: the cases that leave it as it is, and what is particular to a real one.

use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::MessageId;
use diesel_outbox::internals::limits::MESSAGE_BYTES_MAX;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{
    FailureClass, KafkaConfig, KafkaTopic, KafkaTransport, KeySequence, LaneName, Transport,
};
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::broker::{self, config, envelope, make, transport, unique_name};

/// A broker that makes no topic by itself.
pub(super) struct SharedBroker {
    pub(super) bootstrap: String,
}

impl SharedBroker {
    pub(super) fn open() -> Option<Self> {
        test_servers::shared_or_skip(ServerKind::Kafka).map(|bootstrap| Self { bootstrap })
    }

    /// Takes what the broker refuses.
    fn config(&self) -> KafkaConfig {
        config(&self.bootstrap).set("message.max.bytes", "2000000")
    }
}

#[async_trait]
impl TransportUnderTest for SharedBroker {
    fn transport(&self) -> Box<dyn Transport> {
        transport(self.config())
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        broker::read(&self.bootstrap, topic).into_iter().map(|(_, stored)| stored).collect()
    }

    async fn new_topic(&self) -> String {
        let name = unique_name("taken");
        make(&self.bootstrap, &name, 3).await;
        name
    }

    fn max_wait(&self) -> Duration {
        broker::TIMEOUT
    }

    fn oversized_payload_bytes(&self) -> Option<usize> {
        Some(1_200_000)
    }

    async fn unknown_topic(&self) -> Option<String> {
        Some(unique_name("unknown"))
    }

    async fn create_topic(&self, name: &str) -> bool {
        make(&self.bootstrap, name, 3).await;
        true
    }

    fn transport_with_queue_max(&self, messages: usize) -> Option<Box<dyn Transport>> {
        Some(transport(self.config().set("queue.buffering.max.messages", messages.to_string())))
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
        fencing_a_lane_shuts_out_the_previous_owner,
        fenced_lane_keeps_the_order_of_a_sequence,
        refused_message_stops_only_its_own_sequence,
        exactly_once_lane_sends_no_row_twice,
    }
}

#[tokio::test]
async fn a_message_at_the_limit_is_taken() {
    let Some(broker) = SharedBroker::open() else { return };
    let (kafka, topic) = (transport(config(&broker.bootstrap)), broker.new_topic().await);
    let (mut envelope, outcomes) = (envelope(&topic, Some("key")), OutcomeRecorder::new());
    envelope.kind = "order.placed".to_owned();
    envelope.payload = Some(vec![b'x'; MESSAGE_BYTES_MAX - "key".len()]);
    assert_eq!(envelope.size_bytes(), MESSAGE_BYTES_MAX);
    outcomes.send(&*kafka, 0, envelope);
    assert_eq!(outcomes.wait_for(1, broker::TIMEOUT).await[0].1, RecordedOutcome::Delivered);
}

/// By default a topic refuses what is an hour ahead of the broker's clock. Here it refuses what is behind it, and the client holds the
/// message back until it is.
#[tokio::test]
async fn a_refused_timestamp_is_a_clock_problem_and_no_message_failure() {
    let Some(broker) = SharedBroker::open() else { return };
    let topic = unique_name("clocks");
    let made = KafkaTopic::new(&*topic).partitions(1).config("message.timestamp.before.max.ms", "0");
    let config = config(&broker.bootstrap).set("linger.ms", "100");
    let kafka = KafkaTransport::builder(config).create_topic(made).build().expect("a transport");
    kafka.prepare(&[]).await.expect("made");
    let outcomes = OutcomeRecorder::new();
    outcomes.send(&kafka, 0, envelope(&topic, Some("key")));
    let (_, seen) = outcomes.wait_for(1, broker::TIMEOUT).await.remove(0);
    let RecordedOutcome::Failed { class, text } = seen else { panic!("{seen:?}") };
    assert_eq!(class, FailureClass::Topic, "{text}");
    assert!(text.contains("clock") && text.contains("message.timestamp.type"), "{text}");
}

#[tokio::test]
async fn similar_lane_names_do_not_fence_each_other() {
    let Some(broker) = SharedBroker::open() else { return };
    let (kafka, outcomes, tag) = (broker.transport(), OutcomeRecorder::new(), MessageId::new());
    let lane =
        |outbox: &str, topic: &str| LaneName { outbox: format!("{tag}-{outbox}").into(), topic: topic.into(), lane: 0 };
    let orders = unique_name("orders");
    let west_orders = format!("west-{orders}");
    make(&broker.bootstrap, &west_orders, 1).await;
    let eu = kafka.fence(lane("eu", &west_orders)).await.expect("fenced");
    let _eu_west = kafka.fence(lane("eu-west", &orders)).await.expect("fenced");
    outcomes.send_fenced(&*eu, &KeySequence::new(), [(0, envelope(&west_orders, Some("key")))]);
    assert_eq!(outcomes.wait_for(1, broker::TIMEOUT).await[0].1, RecordedOutcome::Delivered);
}
