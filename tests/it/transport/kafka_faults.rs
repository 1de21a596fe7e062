//! What a broker's answers mean, one by one, on librdkafka's mock cluster.

use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome};
use diesel_outbox::transport::{FailureClass, Transport};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::broker::{TIMEOUT, config, envelope, transport};
use super::kafka_mock::Mock;

/// What becomes of one message when requests of a kind are answered so, `times` times.
async fn seen_after(
    api: RDKafkaApiKey,
    answer: RDKafkaRespErr,
    times: usize,
) -> (Mock, Box<dyn Transport>, RecordedOutcome) {
    let mock = Mock::start(1);
    let topic = mock.topic("faulty", 1);
    // With more in flight the mock cluster acknowledges what it never stored. One retry shows what retries end in.
    let config = config(&mock.bootstrap()).set("max.in.flight", "1").set("retries", "1").set("retry.backoff.ms", "1");
    let kafka = transport(config);
    kafka.probe().await.expect("the cluster is there");
    mock.cluster().request_errors(api, &vec![answer; times]);
    let outcomes = OutcomeRecorder::new();
    outcomes.send(&*kafka, 0, envelope(&topic, Some("key")));
    let (_, seen) = outcomes.wait_for(1, TIMEOUT).await.remove(0);
    (mock, kafka, seen)
}

#[tokio::test]
async fn every_answer_has_its_class() {
    use FailureClass as Class;
    use RDKafkaRespErr::*;
    let cases = [
        (RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Class::RecordRefused),
        (RD_KAFKA_RESP_ERR_INVALID_MSG, Class::RecordRefused),
        (RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, Class::RecordRefused),
        (RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, Class::RecordRefused),
        (RD_KAFKA_RESP_ERR_INVALID_RECORD, Class::RecordRefused),
        (RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, Class::Topic),
        (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Class::Topic),
        (RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, Class::Topic),
        (RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, Class::Topic),
        (RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, Class::Temporary),
        (RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, Class::Temporary),
        (RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, Class::Temporary),
        (RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, Class::Temporary),
        (RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Class::Authentication),
        (RD_KAFKA_RESP_ERR_UNKNOWN, Class::Record),
        (RD_KAFKA_RESP_ERR_INVALID_CONFIG, Class::Record),
    ];
    for (answer, class) in cases {
        let (_mock, _kafka, seen) = seen_after(RDKafkaApiKey::Produce, answer, 5).await;
        assert_eq!(seen.class(), Some(class), "{answer:?}: {seen:?}");
    }
}

#[tokio::test]
async fn transient_errors_are_retried_until_delivered() {
    use RDKafkaRespErr::*;
    for answer in [RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE] {
        let (_mock, _kafka, seen) = seen_after(RDKafkaApiKey::Produce, answer, 1).await;
        assert_eq!(seen, RecordedOutcome::Delivered, "{answer:?}");
    }
}

#[tokio::test]
async fn a_broken_client_is_an_outage_and_is_replaced_by_the_probe() {
    let desynchronized = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    let text = broken_by(RDKafkaApiKey::Produce, desynchronized, FailureClass::Fatal).await;
    assert!(text.contains("sequence desynchronization"), "{text}");
}

#[tokio::test]
async fn a_missing_idempotent_write_right_is_reported() {
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    let text = broken_by(RDKafkaApiKey::InitProducerId, refused, FailureClass::Authentication).await;
    assert!(text.contains("Cluster authorization failed"), "{text}");
}

/// What is said of messages when one answer breaks the client.
async fn broken_by(api: RDKafkaApiKey, answer: RDKafkaRespErr, expected: FailureClass) -> String {
    let mock = Mock::start(1);
    let topic = mock.topic("fatal", 1);
    mock.cluster().request_errors(api, &[answer]);
    let (kafka, outcomes) = (transport(config(&mock.bootstrap())), OutcomeRecorder::new());
    let send = |id| outcomes.send(&*kafka, id, envelope(&topic, Some("key")));
    send(0);
    let (_, seen) = outcomes.wait_for(1, TIMEOUT).await.remove(0);
    let RecordedOutcome::Failed { class, text } = seen else { panic!("{seen:?}") };
    assert_eq!(class, expected, "{text}");
    send(1);
    assert_eq!(outcomes.of(1).and_then(|seen| seen.class()), Some(expected), "at once, until it is replaced");

    kafka.probe().await.expect("another client");
    send(2);
    outcomes.wait_for(3, TIMEOUT).await;
    assert_eq!(outcomes.of(2), Some(RecordedOutcome::Delivered));
    text
}
