//! What consumers in Java get: the applications that most messages are written for.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome, TransportUnderTest as _};
use diesel_outbox::{Envelope, Headers};
use xtask::servers::{ServerKind, java};
use xtask::test_servers;

use super::broker::{TIMEOUT, envelope};

/// A message as a reader printed it: names and values in order.
type Printed = Vec<(String, String)>;

fn run(part: ServerKind, program: &str, arguments: &[&str]) -> Option<Vec<Printed>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java").join(program);
    let text = test_servers::own_or_skip(java::run_source(part, &source, arguments))?;
    let value = |value: &str| match value {
        "null" => value.to_owned(),
        value => String::from_utf8_lossy(&BASE64.decode(value).expect("base64")).into_owned(),
    };
    let field = |field: &str| field.split_once('=').map(|(name, held)| (name.to_owned(), value(held)));
    let lines = text.lines().filter_map(|line| line.strip_prefix("message\t"));
    Some(lines.map(|line| line.split('\t').filter_map(field).collect()).collect())
}

/// One with everything, one with what is hard to hold and at its second attempt, one without anything.
fn messages(topic: &str) -> [Envelope; 3] {
    let mut full = envelope(topic, Some("客户 7"));
    full.kind = "order.placed".to_owned();
    full.payload = Some(r#"{"total_cents":1000}"#.into());
    full.headers = [("trace", "00-ab"), ("source", "shop")].into_iter().collect();
    let mut hard = envelope(topic, Some("客户 7"));
    hard.attempt = 2;
    hard.headers = [("trace", "a"), ("trace", "b"), ("empty", "")].into_iter().collect();
    let mut tombstone = envelope(topic, Some("客户 7"));
    tombstone.payload = None;
    [full, hard, tombstone]
}

async fn send(transport: &dyn diesel_outbox::transport::Transport, messages: &[Envelope]) {
    let outcomes = OutcomeRecorder::new();
    for (id, envelope) in (0..).zip(messages) {
        outcomes.send(transport, id, envelope.clone());
    }
    let seen = outcomes.wait_for(messages.len(), TIMEOUT).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{seen:?}");
}

fn millis(envelope: &Envelope) -> String {
    envelope.created_at.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis().to_string()
}

/// What a consumer is told of it.
fn attempt(envelope: &Envelope) -> Option<String> {
    (envelope.attempt > 1).then(|| envelope.attempt.to_string())
}

#[tokio::test]
async fn a_kafka_consumer_in_java_reads_what_was_written() {
    let Some(broker) = super::kafka::SharedBroker::open() else { return };
    let topic = broker.new_topic().await;
    let sent = messages(&topic);
    send(&*broker.transport(), &sent).await;
    let Some(printed) = run(ServerKind::Kafka, "KafkaReader.java", &[&broker.bootstrap, &topic, "3"]) else { return };
    assert_eq!(printed.len(), 3);
    for (envelope, printed) in sent.iter().zip(&printed) {
        let payload = envelope.payload.as_ref().map(|payload| String::from_utf8_lossy(payload).into_owned());
        let mut expected = vec![
            ("body".to_owned(), payload.unwrap_or_else(|| "null".to_owned())),
            ("keys".to_owned(), "客户 7".to_owned()),
            ("property outbox-message-id".to_owned(), envelope.message_id.to_string()),
        ];
        if !envelope.kind.is_empty() {
            expected.push(("property outbox-kind".to_owned(), envelope.kind.clone()));
        }
        expected.extend(attempt(envelope).map(|attempt| ("property outbox-attempt".to_owned(), attempt)));
        expected.push(("property outbox-created-at".to_owned(), millis(envelope)));
        let headers = envelope.headers.iter();
        expected.extend(
            headers.map(|(name, value)| (format!("property {name}"), String::from_utf8_lossy(value).into_owned())),
        );
        let (times, printed): (Vec<_>, Vec<_>) = printed.iter().cloned().partition(|(name, _)| name == "timestamp");
        assert_eq!(times.len(), 1, "when it was sent");
        assert_eq!(printed, expected);
    }
}

#[cfg(feature = "_test")]
#[tokio::test]
async fn a_rocketmq_consumer_in_java_reads_what_was_written() {
    let Some(broker) = super::rocketmq::SharedBroker::open() else { return };
    let topic = broker.new_topic().await;
    let sent = messages(&topic);
    send(&*broker.transport(), &sent).await;
    let Some(printed) = run(ServerKind::Rocketmq, "RocketMqReader.java", &[&broker.name_server, &topic, "*", "3"])
    else {
        return;
    };
    assert_eq!(printed.len(), 3);
    let printed: Vec<BTreeMap<_, _>> = printed.into_iter().map(|message| message.into_iter().collect()).collect();
    for (envelope, printed) in sent.iter().zip(&printed) {
        let id = envelope.message_id.to_string();
        let is = |name: &str, value: &str| {
            assert_eq!(printed.get(name).map(String::as_str), Some(value), "{name} of {printed:?}");
        };
        is("keys", &format!("{id} 客户 7"));
        is("tag", &envelope.kind);
        is("property __SHARDINGKEY", "客户 7");
        is("property outbox-message-id", &id);
        assert_eq!(printed.get("property outbox-attempt"), attempt(envelope).as_ref());
        is("property outbox-created-at", &millis(envelope));
    }
    let [full, hard, tombstone] = &printed[..] else { unreachable!("three") };
    assert_eq!(full["body"], r#"{"total_cents":1000}"#);
    assert_eq!((&*full["property trace"], &*full["property source"]), ("00-ab", "shop"));
    assert_eq!(full["property outbox-kind"], "order.placed");
    assert!(!full.contains_key("property outbox-headers"), "each is a property as it is");
    assert_eq!(Headers::from_json(&hard["property outbox-headers"]).expect("JSON"), sent[1].headers);
    assert_eq!(hard["property trace"], "a");
    assert_eq!((&*tombstone["body"], &*tombstone["property outbox-payload"]), ("\0", "none"));

    // A subscription to the tag gets what has it, and nothing else.
    let tagged = run(ServerKind::Rocketmq, "RocketMqReader.java", &[&broker.name_server, &topic, "order.placed", "1"]);
    assert_eq!(tagged.map(|printed| printed.len()), Some(1));
}
