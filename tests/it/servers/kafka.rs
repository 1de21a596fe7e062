use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use xtask::servers::Kafka;
use xtask::servers::kafka::{Access, Login, Options};
use xtask::test_servers;

use super::{eventually, is_gone, is_refused};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps the delivery reports.
#[derive(Default, Clone)]
struct Reports(std::sync::Arc<std::sync::Mutex<Vec<Result<(), KafkaError>>>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let result = result.as_ref().map(drop).map_err(|(error, _)| error.clone());
        self.0.lock().expect("no panic").push(result);
    }
}

/// Sends one record and returns what the broker said about it.
fn send(config: &ClientConfig, topic: &str, payload: &str) -> Result<(), KafkaError> {
    let reports = Reports::default();
    let producer: BaseProducer<_> = config.create_with_context(reports.clone()).expect("producer");
    producer.send(BaseRecord::<(), _>::to(topic).payload(payload)).expect("queued");
    let report = eventually("a delivery report", || {
        producer.poll(Duration::from_millis(50));
        reports.0.lock().expect("no panic").pop()
    });
    producer.flush(TIMEOUT).expect("flush");
    report
}

fn read_all(config: &ClientConfig, topic: &str, count: usize) -> Vec<String> {
    let consumer: BaseConsumer = config.clone().set("group.id", "reader").create().expect("consumer");
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(topic, 0, Offset::Beginning).expect("partition");
    consumer.assign(&from).expect("assign");
    let read = || loop {
        if let Ok(record) = consumer.poll(TIMEOUT)? {
            return Some(String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned());
        }
    };
    (0..count).map(|_| eventually("a record", read)).collect()
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("message.timeout.ms", "20000");
    // How long a topic may be unknown after its creation was requested.
    config.set("topic.metadata.refresh.fast.interval.ms", "50").set("topic.metadata.propagation.max.ms", "15000");
    config
}

fn login(server: &Kafka, login: &Login) -> ClientConfig {
    let sasl = server.sasl().expect("a listener with a login");
    let mut config = client(&sasl.bootstrap);
    config.set("security.protocol", "SASL_SSL").set("sasl.mechanism", "SCRAM-SHA-512");
    config.set("ssl.ca.location", sasl.ca_pem.to_str().expect("utf-8"));
    config.set("sasl.username", &login.user).set("sasl.password", &login.password);
    config
}

#[test]
fn keeps_records_through_kill_9_and_is_gone_after_drop() {
    let settings = vec![("num.partitions".to_owned(), "1".to_owned())];
    let options = Options { auto_create_topics: true, settings, ..Options::default() };
    let Some(mut server) = test_servers::own_or_skip(Kafka::start(&options)) else { return };
    let config = client(&server.bootstrap());
    send(&config, "kept", "before").expect("sent");
    let (port, first) = (server.port(), server.pid().expect("it runs"));

    server.kill9().expect("kill -9");
    assert!(is_gone(first) && is_refused(port), "a killed server answers no more");
    server.start_again().expect("start again");
    send(&config, "kept", "after kill -9").expect("sent");

    server.stop().expect("stop");
    assert!(is_refused(port));
    server.start_again().expect("start after a stop");
    send(&config, "kept", "after stop").expect("sent");
    assert_eq!(read_all(&config, "kept", 3), ["before", "after kill -9", "after stop"]);
    assert_eq!(server.port(), port);
    let last = server.pid().expect("it runs");
    drop(server);
    assert!(is_gone(last) && is_refused(port), "nothing outlives its owner");
}

#[test]
fn an_unknown_topic_stays_unknown() {
    let Some(server) = test_servers::own_or_skip(Kafka::start(&Options::default())) else { return };
    let mut config = client(&server.bootstrap());
    config.set("topic.metadata.propagation.max.ms", "500");
    let unknown = send(&config, "nobody-made-it", "x").expect_err("unknown topic");
    assert_eq!(unknown.rdkafka_error_code(), Some(RDKafkaErrorCode::UnknownTopicOrPartition));
}

#[test]
fn logins_access_lists_and_the_size_limit_are_enforced() {
    let small = Some(2_000);
    let options =
        Options { access: Access::Acls, auto_create_topics: true, message_max_bytes: small, ..Options::default() };
    let Some(server) = test_servers::own_or_skip(Kafka::start(&options)) else { return };
    let sasl = server.sasl().expect("a listener with a login").clone();
    send(&login(&server, &sasl.owner), "guarded", "x").expect("the owner may send");
    send(&client(&server.bootstrap()), "guarded", "x").expect("the plain listener may send");

    let large = send(&client(&server.bootstrap()), "guarded", &"x".repeat(3_000)).expect_err("too large");
    assert_eq!(large.rdkafka_error_code(), Some(RDKafkaErrorCode::MessageSizeTooLarge));

    let stranger = send(&login(&server, &sasl.stranger), "guarded", "x").expect_err("no right to it");
    assert_eq!(stranger.rdkafka_error_code(), Some(RDKafkaErrorCode::TopicAuthorizationFailed));

    let wrong = Login { password: "wrong".to_owned(), ..sasl.owner };
    let consumer: BaseConsumer = login(&server, &wrong).create().expect("client");
    assert!(consumer.fetch_metadata(None, Duration::from_secs(5)).is_err(), "a wrong password got in");
}
