//! Somebody in a Kafka broker's place who takes connections and never says anything.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use diesel_outbox::internals::limits::{KAFKA_ADMIN_TIMEOUT, KAFKA_FENCE_TIMEOUT, KAFKA_PROBE_TIMEOUT};
use diesel_outbox::store::MemoryStore;
use diesel_outbox::transport::{FailureClass, KafkaTopic, KafkaTransport, LaneName, Transport as _};
use diesel_outbox::{Outbox, Topic};

use super::broker::{TIMEOUT, config};
use super::kafka_mock::Mock;

struct Silent {
    kafka: KafkaTransport,
    _listener: TcpListener,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let bootstrap = listener.local_addr().expect("an address").to_string();
        let builder = KafkaTransport::builder(config(&bootstrap)).create_topic(KafkaTopic::new("orders"));
        Self { kafka: builder.build().expect("a transport"), _listener: listener }
    }
}

/// Some of the time that a call of the client takes besides goes to machines that are busy.
fn assert_within(bound: Duration, began: Instant) {
    assert!(began.elapsed() <= bound + TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test]
async fn topic_lookups_respect_their_timeout() {
    let silent = Silent::start();
    let began = Instant::now();
    let refused = silent.kafka.prepare(&[]).await.expect_err("nobody makes it");
    assert_eq!(refused.class(), FailureClass::Connection, "{refused}");
    assert_within(KAFKA_ADMIN_TIMEOUT, began);
}

#[tokio::test]
async fn fencing_respects_its_timeout() {
    let silent = Silent::start();
    let began = Instant::now();
    let lane = LaneName { outbox: "outbox_messages".into(), topic: "orders".into(), lane: 0 };
    let refused = silent.kafka.fence(lane).await.expect_err("nobody fences it");
    assert!(refused.is_retriable(), "{refused}");
    assert_within(KAFKA_FENCE_TIMEOUT, began);
}

#[tokio::test]
async fn probes_respect_their_timeout() {
    let silent = Silent::start();
    let began = Instant::now();
    let refused = silent.kafka.probe().await.expect_err("no server answers");
    assert_eq!(refused.class(), FailureClass::Connection, "{refused}");
    assert_within(KAFKA_PROBE_TIMEOUT, began);
}

/// Until the relay probes its broker: a broker that answers at once leaves no state to wait for.
#[expect(clippy::disallowed_methods, reason = "any moment within the probe's time-out will do")]
fn wait_for_probe() {
    std::thread::sleep(Duration::from_millis(500));
}

/// The time from the shutdown to the end of the runtime, as at the end of a main function.
fn end_of_a_relay_on(bootstrap: &str) -> (Duration, Duration) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("build");
    let kafka = KafkaTransport::new(config(bootstrap)).expect("a transport");
    let began = Instant::now();
    let relay = runtime.block_on(outbox.relay().store(MemoryStore::new()).transport(kafka).start()).expect("start");
    let started = began.elapsed();
    wait_for_probe();
    let began = Instant::now();
    let report = runtime.block_on(relay.shutdown(TIMEOUT));
    drop(runtime);
    assert!(report.is_clean(), "{report:?}");
    (started, began.elapsed())
}

#[test]
fn a_relay_ends_as_fast_without_an_answer_as_with_one() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = listener.local_addr().expect("an address").to_string();
    let mock = Mock::start(1);
    mock.cluster().create_topic("orders", 1, 1).expect("the topic is made");
    let (_, with_an_answer) = end_of_a_relay_on(&mock.bootstrap());
    for bootstrap in [&*silent, "127.0.0.1:1"] {
        let (started, ended) = end_of_a_relay_on(bootstrap);
        assert!(started < KAFKA_PROBE_TIMEOUT + Duration::from_secs(3), "{bootstrap}: {started:?}");
        let slower = ended.saturating_sub(with_an_answer);
        assert!(slower < Duration::from_secs(1), "{bootstrap}: {ended:?}, and {with_an_answer:?} with an answer");
    }
}
