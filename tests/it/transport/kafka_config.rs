//! Settings of the Kafka transport: what is refused, and what is never shown.

use std::time::Duration;

use diesel_outbox::Topic;
use diesel_outbox::transport::{FailureClass, KafkaConfig, KafkaConfigError, KafkaTransport, Transport};

/// Nobody listens there.
const NOWHERE: &str = "127.0.0.1:1";

fn made(settings: &[(&str, &str)]) -> Result<KafkaTransport, KafkaConfigError> {
    let config = settings.iter().fold(KafkaConfig::new(NOWHERE), |config, (name, value)| config.set(*name, *value));
    KafkaTransport::new(config)
}

#[test]
fn settings_that_break_a_guarantee_are_refused_with_a_remedy() {
    let cases: [(&[(&str, &str)], &str); 17] = [
        (&[("acks", "1")], "acks=1 is refused: a message that some in-sync replica lacks"),
        (&[("request.required.acks", "0")], "acks=0 is refused"),
        (&[("enable.idempotence", "false")], "set max.in.flight.requests.per.connection=1 as well"),
        (&[("enable.idempotence", "f")], "enable.idempotence=f is refused"),
        (&[("enable.idempotence", "0")], "enable.idempotence=0 is refused"),
        (&[("message.timeout.ms", "0")], "message.timeout.ms=0 is refused: a message without a time-out"),
        (&[("message.timeout.ms", "00")], "message.timeout.ms=00 is refused"),
        (&[("delivery.timeout.ms", "0")], "message.timeout.ms=0 is refused"),
        (&[("delivery.report.only.error", "true")], "no row is ever removed"),
        (&[("delivery.report.only.error", "1")], "no row is ever removed"),
        (&[("delivery.report.only.error", "T")], "no row is ever removed"),
        (&[("queuing.strategy", "LIFO")], "would change their order"),
        (&[("enable.gapless.guarantee", "true")], "every refused message would end the client"),
        (&[("transactional.id", "shop")], "transactional.id=shop is refused"),
        (&[("bootstrap.servers", "")], "give host:port of a broker"),
        (&[("bootstrap.servers", "kafka://kafka-1:9092")], "has no scheme; give host:port"),
        (&[("metadata.broker.list", "kafka-1:9092,SSL://kafka-2:9093")], "security.protocol"),
    ];
    for (settings, expected) in cases {
        let error = made(settings).expect_err("refused").to_string();
        assert!(error.contains(expected), "{settings:?}: {error}");
    }
}

#[test]
fn settings_that_keep_the_guarantees_are_accepted() {
    for settings in [
        &[("acks", "-1")][..],
        &[("acks", "ALL"), ("enable.idempotence", "1"), ("delivery.report.only.error", "0")],
        &[("enable.idempotence", "false"), ("max.in.flight", "1")],
        &[("queuing.strategy", "fifo"), ("linger.ms", "5"), ("compression.type", "lz4")],
        &[("delivery.timeout.ms", "1000"), ("retries", "3"), ("partitioner", "consistent_random")],
    ] {
        made(settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
    }
}

#[test]
fn names_and_values_that_the_client_does_not_know_are_named() {
    let unknown = made(&[("lingr.ms", "1")]).expect_err("unknown");
    assert!(matches!(&unknown, KafkaConfigError::Invalid { name, .. } if name == "lingr.ms"), "{unknown}");
    let invalid = made(&[("linger.ms", "soon")]).expect_err("invalid");
    assert!(invalid.to_string().contains("linger.ms"), "{invalid}");
}

/// No broker is needed for that, and topics without fencing still work.
#[tokio::test]
async fn settings_a_fenced_client_refuses_are_reported_at_start() {
    let fenced = [Topic::new("ledger").ordered_by_key().fenced()];
    for (settings, expected) in [
        (&[("socket.timeout.ms", "60000")][..], "socket.timeout.ms"),
        (&[("transaction.timeout.ms", "1000"), ("message.timeout.ms", "5000")], "message.timeout.ms"),
    ] {
        let error = made(settings).expect("a plain client").prepare(&fenced).await.expect_err("refused");
        assert_eq!(error.class(), FailureClass::Topic, "{error}");
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("transaction.timeout.ms"), "{text}");
    }
}

/// `a/b` with the table `c` would be `a` with the table `b` and the relay `c`.
#[test]
fn a_fence_prefix_with_the_separator_of_the_ids_is_refused() {
    let made = |prefix: &str| KafkaTransport::builder(KafkaConfig::new(NOWHERE)).fence_prefix(prefix).build();
    for prefix in ["shop/eu", "/", "shop\0"] {
        assert!(matches!(made(prefix), Err(KafkaConfigError::FencePrefix { .. })), "{prefix:?}");
    }
    made("shop-eu.1").expect("taken");
}

#[test]
fn a_second_name_replaces_our_default() {
    let kafka = made(&[("delivery.timeout.ms", "1000")]).expect("a transport");
    assert_eq!(kafka.delivery_timeout(), Duration::from_secs(3));
    assert_eq!(made(&[]).expect("a transport").delivery_timeout(), Duration::from_secs(27), "below the lease of 30 s");
}

#[test]
fn secrets_are_in_no_debug_and_in_no_error() {
    let secrets = [
        ("sasl.password", "swordfish"),
        ("ssl.key.password", "marlin"),
        ("ssl.keystore.password", "halibut"),
        ("sasl.oauthbearer.client.secret", "sturgeon"),
        ("sasl.oauthbearer.config", "pike"),
        ("ssl.key.pem", "-----BEGIN PRIVATE KEY----- perch"),
    ];
    let config = secrets.iter().fold(KafkaConfig::new(NOWHERE), |config, (name, value)| config.set(*name, *value));
    let config = config.set("sasl.username", "shop");
    let shown = format!("{config:?}");
    assert!(shown.contains("shop") && shown.contains("[redacted]"), "{shown}");
    let error = KafkaTransport::new(config.clone()).expect_err("such a key is none");
    // A value that is refused as such: librdkafka's own text repeats it.
    let spoilt = KafkaTransport::new(config.set("security.protocol", "swordfish")).expect_err("no such protocol");
    for text in [shown, format!("{error} {error:?}"), format!("{spoilt} {spoilt:?}")] {
        assert!(secrets.iter().all(|(_, secret)| !text.contains(secret)), "{text}");
    }

    let kafka = made(&[("sasl.password", "swordfish")]).expect("a transport");
    assert!(!format!("{kafka:?}").contains("swordfish"));
}
