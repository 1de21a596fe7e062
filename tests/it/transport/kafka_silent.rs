//! Somebody in a Kafka broker's place who takes connections and never says anything.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use diesel_outbox::limits::{KAFKA_ADMIN_TIMEOUT, KAFKA_FENCE_TIMEOUT, KAFKA_PROBE_TIMEOUT};
use diesel_outbox::transport::{FailureClass, KafkaTopic, KafkaTransport, LaneName, Transport as _};

use super::broker::{TIMEOUT, config};

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
    let refused = silent.kafka.probe().await.expect_err("nobody answers");
    assert_eq!(refused.class(), FailureClass::Connection, "{refused}");
    assert_within(KAFKA_PROBE_TIMEOUT, began);
}
