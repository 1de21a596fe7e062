//! Kafka against librdkafka's mock cluster: the suite, and faults that a real broker does not have to order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use diesel_outbox::transport::{
    FailureClass, FencedLane, KafkaTopic, KafkaTransport, KeySequence, LaneName, OutcomeSender, Transport,
};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer as _};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::broker::{self, config, envelope, transport, unique_name};

/// The cluster inside a client, because a handle of its own cannot move between threads.
pub(super) struct Mock(BaseProducer);

impl Mock {
    pub(super) fn start(brokers: u32) -> Self {
        let mut config = rdkafka::ClientConfig::new();
        config.set("test.mock.num.brokers", brokers.to_string());
        Self(config.create().expect("a mock cluster"))
    }

    pub(super) fn cluster(&self) -> MockCluster<'_, DefaultProducerContext> {
        self.0.client().mock_cluster().expect("the cluster of the client")
    }

    pub(super) fn bootstrap(&self) -> String {
        self.cluster().bootstrap_servers()
    }

    pub(super) fn topic(&self, name: &str, partitions: i32) -> String {
        let name = unique_name(name);
        self.cluster().create_topic(&name, partitions, 1).expect("the topic is made");
        name
    }
}

#[async_trait]
impl TransportUnderTest for Mock {
    fn transport(&self) -> Box<dyn Transport> {
        transport(config(&self.bootstrap()))
    }

    async fn stored(&self, topic: &str) -> Vec<StoredMessage> {
        broker::read(&self.bootstrap(), topic).into_iter().map(|(_, stored)| stored).collect()
    }

    async fn new_topic(&self) -> String {
        self.topic("taken", 3)
    }

    async fn go_down(&self) -> bool {
        self.cluster().broker_down(-1).expect("brokers go down");
        true
    }

    async fn go_up(&self) {
        self.cluster().broker_up(-1).expect("brokers come up");
    }

    async fn unknown_topic(&self) -> Option<String> {
        let name = self.topic("unknown", 3);
        let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        self.cluster().topic_error(&name, unknown).expect("the topic is hidden");
        Some(name)
    }

    async fn create_topic(&self, name: &str) -> bool {
        self.cluster().topic_error(name, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).expect("the topic is shown");
        true
    }

    fn transport_with_queue_max(&self, messages: usize) -> Option<Box<dyn Transport>> {
        let config = config(&self.bootstrap()).set("queue.buffering.max.messages", messages.to_string());
        Some(transport(config))
    }

    fn max_wait(&self) -> Duration {
        broker::TIMEOUT
    }
}

/// The relay asks: an outage between two messages would otherwise be found by the next one, which then waits for the
/// sweeper although Kafka may be back by then.
#[tokio::test]
async fn the_client_notices_an_outage_without_a_message() {
    let mock = Mock::start(1);
    let kafka = mock.transport();
    kafka.probe().await.expect("the broker is there");
    assert_eq!(kafka.outage(), None);
    mock.go_down().await;
    let noticed = async {
        while kafka.outage() != Some(FailureClass::Connection) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(broker::TIMEOUT, noticed).await.expect("the outage is noticed");
    mock.go_up().await;
    let back = async { while kafka.probe().await.is_err() {} };
    tokio::time::timeout(broker::TIMEOUT, back).await.expect("a probe succeeds");
    assert_eq!(kafka.outage(), None);
}

mod conformance {
    use super::Mock;

    async fn open() -> Option<Mock> {
        Some(Mock::start(1))
    }

    // What the mock cluster cannot do; the real brokers can, each of it.
    diesel_outbox::transport_conformance_tests! { open; without
        only_oversized_messages_are_refused,
        authentication_failure_hides_secrets,
        frozen_broker_times_out_every_message,
        fencing_a_lane_shuts_out_the_previous_owner,
        refused_message_stops_only_its_own_sequence,
        exactly_once_lane_sends_no_row_twice,
    }
}

/// Holds a transport, and drops it where the first outcome is reported: on the client's own thread.
#[derive(Default)]
struct LastHolder {
    held: Mutex<Option<Box<dyn Transport>>>,
}

impl LastHolder {
    fn drop_it(&self) {
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[tokio::test]
async fn the_last_outcome_may_drop_the_transport() {
    let mock = Mock::start(1);
    let topic = mock.topic("last", 1);
    // So that no outcome comes before the sink holds the transport.
    mock.cluster().broker_round_trip_time(-1, Duration::from_millis(300)).expect("a slow broker");
    let (kafka, outcomes) = (transport(config(&mock.bootstrap())), OutcomeRecorder::new());
    let holder = Arc::new(LastHolder::default());
    for id in 0..100 {
        let envelope = envelope(&topic, Some("key"));
        let (holder, sender) = (Arc::clone(&holder), outcomes.sender(id));
        let report = move |outcome| {
            holder.drop_it();
            sender.complete(outcome);
        };
        kafka.send(envelope, OutcomeSender::new(report));
    }
    assert_eq!(outcomes.count(), 0);
    *holder.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(kafka);
    outcomes.wait_for(100, broker::TIMEOUT).await;
}

async fn fenced(kafka: &dyn Transport, topic: &str) -> Arc<dyn FencedLane> {
    let lane = LaneName { outbox: "outbox_messages".into(), topic: topic.into(), lane: 0 };
    kafka.fence(lane).await.expect("the lane is fenced")
}

/// The fastest of several, because a busy machine makes some of them slow.
#[tokio::test]
async fn a_fenced_message_does_not_wait_for_the_clients_poll_to_end() {
    let mock = Mock::start(1);
    let (kafka, topic, outcomes) = (mock.transport(), mock.topic("quick", 1), OutcomeRecorder::new());
    let lane = fenced(&*kafka, &topic).await;
    let mut fastest = Duration::MAX;
    for id in 0..30_i32 {
        let began = Instant::now();
        outcomes.send_fenced(&*lane, &KeySequence::new(), [(id.into(), envelope(&topic, Some("key")))]);
        outcomes.wait_for(usize::try_from(id).expect("small") + 1, broker::TIMEOUT).await;
        fastest = fastest.min(began.elapsed());
    }
    // The client's wait was a tenth of a second.
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}

/// The client drops the messages and reports no reason for any.
#[tokio::test]
async fn a_missing_right_to_write_to_a_fenced_topic_is_of_the_topic() {
    let mock = Mock::start(1);
    let (kafka, topic, outcomes) = (mock.transport(), mock.topic("forbidden", 1), OutcomeRecorder::new());
    let lane = fenced(&*kafka, &topic).await;
    let forbidden = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    mock.cluster().request_errors(RDKafkaApiKey::AddPartitionsToTxn, &[forbidden]);
    outcomes.send_fenced(
        &*lane,
        &KeySequence::new(),
        [(0, envelope(&topic, Some("key"))), (1, envelope(&topic, Some("key")))],
    );
    let seen = outcomes.wait_for(2, broker::TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| seen.class() == Some(FailureClass::Topic)), "{seen:?}");
    outcomes.send_fenced(&*fenced(&*kafka, &topic).await, &KeySequence::new(), [(2, envelope(&topic, Some("key")))]);
    outcomes.wait_for(3, broker::TIMEOUT).await;
    assert_eq!(outcomes.of(2), Some(RecordedOutcome::Delivered));
}

/// The mock cluster does not answer CreateTopics.
#[tokio::test]
async fn a_cluster_that_cannot_create_topics_is_reported() {
    let mock = Mock::start(1);
    let builder = KafkaTransport::builder(config(&mock.bootstrap())).create_topic(KafkaTopic::new("orders"));
    let error = builder.build().expect("a transport").prepare(&[]).await.expect_err("the topic cannot be created");
    assert!([FailureClass::Topic, FailureClass::Connection].contains(&error.class()), "{error}");
    for part in ["\"orders\"", "CreateTopics", "MockCluster::create_topic", "check_topic"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let topic = mock.topic("checked", 3);
    let builder = KafkaTransport::builder(config(&mock.bootstrap())).check_topic(KafkaTopic::new(topic).partitions(3));
    builder.build().expect("a transport").prepare(&[]).await.expect("the topic exists");
}
