//! Where messages go: the same partition as librdkafka's own choice, one of the user's, and none where it is stuck.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use diesel_outbox::Topic;
use diesel_outbox::testing::{OutcomeRecorder, RecordedOutcome};
use diesel_outbox::transport::{FailureClass, KafkaTransport, Transport};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::types::RDKafkaApiKey;

use super::broker::{self, TIMEOUT, client, config, envelope, transport};
use super::kafka_mock::Mock;

fn partitions_by_key(mock: &Mock, topic: &str) -> BTreeMap<Vec<u8>, i32> {
    let placed = broker::read(&mock.bootstrap(), topic);
    placed.into_iter().filter_map(|(partition, stored)| Some((stored.key?, partition))).collect()
}

#[tokio::test]
async fn a_key_goes_to_the_partition_the_client_would_choose() {
    let mock = Mock::start(1);
    let (ours, theirs) = (mock.topic("ours", 13), mock.topic("theirs", 13));
    let keys = (0..300).map(|n| "k".repeat(n % 9) + &(n * n).to_string() + &"ü".repeat(n % 3));
    let keys: Vec<String> = keys.chain([String::new()]).collect();

    let kafka = transport(config(&mock.bootstrap()));
    kafka.prepare(&[Topic::new(&*ours)]).await.expect("prepared");
    let outcomes = OutcomeRecorder::new();
    (0..).zip(&keys).for_each(|(id, key)| outcomes.send(&*kafka, id, envelope(&ours, Some(key))));
    outcomes.wait_for(keys.len(), TIMEOUT).await;

    let producer: BaseProducer =
        client(&mock.bootstrap()).set("partitioner", "murmur2_random").create().expect("a producer");
    for key in &keys {
        producer.send(BaseRecord::to(&theirs).key(key.as_str()).payload("x")).expect("queued");
    }
    producer.flush(TIMEOUT).expect("sent");
    let ours = partitions_by_key(&mock, &ours);
    assert_eq!(ours, partitions_by_key(&mock, &theirs));
    assert_eq!(ours.len(), keys.len());
    let used: std::collections::BTreeSet<i32> = ours.into_values().collect();
    assert_eq!(used.len(), 13, "the keys reach every partition, so that the comparison says something");
}

#[tokio::test]
async fn a_partition_function_chooses_and_the_rest_is_hashed() {
    let mock = Mock::start(1);
    let topic = mock.topic("chosen", 5);
    let kafka = KafkaTransport::builder(config(&mock.bootstrap()))
        .partition_with(|envelope, count| match &*envelope.kind {
            "last" => Some(count - 1),
            "beyond" => Some(count),
            "before" => Some(-1),
            _ => None,
        })
        .build()
        .expect("a transport");
    let outcomes = OutcomeRecorder::new();
    let send = |id, kind: &str, key: &str| {
        let mut envelope = envelope(&topic, Some(key));
        envelope.kind = kind.to_owned();
        outcomes.send(&kafka, id, envelope);
    };
    send(0, "last", "too early");
    let early = outcomes.of(0).expect("an outcome at once");
    assert_eq!(early.class(), Some(FailureClass::Temporary), "the number of partitions is not known yet: {early:?}");

    kafka.prepare(&[Topic::new(&*topic)]).await.expect("prepared");
    send(1, "last", "b");
    send(2, "other", "b");
    send(3, "last", "c");
    send(4, "beyond", "c");
    send(5, "before", "c");
    outcomes.wait_for(6, TIMEOUT).await;
    for id in [4, 5] {
        let nowhere = outcomes.of(id).expect("an outcome");
        assert_eq!(nowhere.class(), Some(FailureClass::Record), "{nowhere:?}");
    }
    let mut stored: Vec<_> = broker::read(&mock.bootstrap(), &topic);
    stored.sort_by_key(|(partition, stored)| (*partition, stored.key.clone()));
    let placed: Vec<_> = stored.iter().map(|(partition, stored)| (*partition, stored.key.as_deref())).collect();
    // Java's hash of "b" is partition 1 of 5.
    assert_eq!(placed, [(1, Some(&b"b"[..])), (4, Some(b"b")), (4, Some(b"c"))]);
}

/// A relay's window, refilled as outcomes come: without the bound the partition without leader fills it in a second.
#[tokio::test]
async fn a_leaderless_partition_blocks_no_other() {
    const WINDOW: usize = 20_000;
    let mock = Mock::start(1);
    let topic = mock.topic("stuck", 4);
    // From version 10 on the mock cluster looks up the leader's address for its answer, and crashes for want of one.
    mock.cluster().apiversion(RDKafkaApiKey::Produce, Some(0), Some(9)).expect("an older broker");
    let kafka = transport(config(&mock.bootstrap()).set("message.timeout.ms", "20000"));
    kafka.prepare(&[Topic::new(&*topic)]).await.expect("prepared");
    mock.cluster().partition_leader(&topic, 2, None).expect("no leader");

    let (outcomes, mut sent) = (OutcomeRecorder::new(), 0);
    let ends_at = Instant::now() + Duration::from_secs(3);
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while Instant::now() < ends_at {
        let in_flight = sent - outcomes.count();
        for _ in 0..WINDOW.saturating_sub(in_flight).min(500) {
            let key = format!("key-{}", sent % 64);
            outcomes.send(&*kafka, i64::try_from(sent).expect("few"), envelope(&topic, Some(&key)));
            sent += 1;
        }
        tick.tick().await;
    }
    let refused = outcomes.seen().into_iter().find(|(_, seen)| *seen != RecordedOutcome::Delivered);
    let (_, refused) = refused.expect("something is refused");
    assert_eq!(refused.class(), Some(FailureClass::Temporary), "{refused:?}");

    let stuck = sent - outcomes.count();
    assert!(stuck < WINDOW / 2, "{stuck} of {WINDOW} are taken by the partition that takes nothing");
    let others = OutcomeRecorder::new();
    (0..1_000).for_each(|id| others.send(&*kafka, id, envelope(&topic, Some(&format!("key-{}", id % 64)))));
    let is_moving = |seen: &[(i64, RecordedOutcome)]| {
        seen.iter().filter(|(_, seen)| *seen == RecordedOutcome::Delivered).count() >= 600
    };
    others.wait_until(is_moving, TIMEOUT).await;

    mock.cluster().partition_leader(&topic, 2, Some(1)).expect("a leader");
    let all = outcomes.wait_for(sent, TIMEOUT).await;
    let of_the_stuck = all.iter().filter(|(_, seen)| seen.class() == Some(FailureClass::Temporary)).count();
    assert!(of_the_stuck < sent / 2, "what waited is delivered once there is a leader");
}
