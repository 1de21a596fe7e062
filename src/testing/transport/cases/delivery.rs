use std::collections::BTreeSet;
use std::time::Duration;

use super::super::outcomes::envelope;
use super::super::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};
use super::{ids_stored, numbers};
use crate::clock::system_now;
use crate::topic::Topic;

/// `prepare` may be repeated, and a running broker answers a probe.
pub async fn prepare_is_idempotent_and_probe_succeeds(broker: &dyn TransportUnderTest) {
    let transport = broker.transport();
    let topics = [Topic::new(broker.new_topic().await)];
    for _ in 0..2 {
        transport.prepare(&topics).await.unwrap_or_else(|error| panic!("prepare: {error}"));
        transport.probe().await.unwrap_or_else(|error| panic!("probe: {error}"));
    }
    assert!(transport.delivery_timeout() > Duration::ZERO);
}

/// A thousand messages, with and without keys: each has one outcome, "delivered", and is stored once.
pub async fn each_message_gets_one_outcome(broker: &dyn TransportUnderTest) {
    let (transport, outcomes, topic) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    let mut sent = BTreeSet::new();
    for id in 0..1_000 {
        let key = (id % 3 > 0).then(|| format!("key-{}", id % 10));
        let envelope = envelope(&topic, key.as_deref(), "x");
        sent.insert(envelope.message_id);
        outcomes.send(&*transport, id, envelope);
    }
    let seen = outcomes.wait_for(1_000, broker.max_wait()).await;
    assert!(
        seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered),
        "not delivered: {:?}",
        first_undelivered(&seen)
    );
    assert_eq!(numbers(&seen), (0..1_000).collect());
    assert_eq!(ids_stored(broker, &topic).await, sent);
}

/// Five keys, interleaved: messages of a key are stored in the order in which they were sent.
pub async fn order_per_key_is_kept(broker: &dyn TransportUnderTest) {
    let (transport, outcomes, topic) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    for id in 0..2_000 {
        outcomes.send(&*transport, id, envelope(&topic, Some(&format!("key-{}", id % 5)), &id.to_string()));
    }
    outcomes.wait_for(2_000, broker.max_wait()).await;
    let stored = broker.stored(&topic).await;
    for key in 0..5 {
        let of_key = stored.iter().filter(|stored| stored.key == Some(format!("key-{key}").into_bytes()));
        let order: Vec<_> = of_key.filter_map(|stored| stored.payload.clone()).collect();
        let sent: Vec<_> = (0..2_000).filter(|id| id % 5 == key).map(|id| id.to_string().into_bytes()).collect();
        assert!(order == sent, "the messages of key-{key} changed their order, or not all are there");
    }
}

/// How far the clocks of broker and test may differ.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// Key, payload, headers and times arrive as they are in the row: bytes, empty values, repeated names, a tombstone, an old message that
/// was delayed. The broker's own timestamp is when it was sent, or the broker would at once expire messages older than its retention.
pub async fn stored_messages_match_sent_messages(broker: &dyn TransportUnderTest) {
    let (transport, outcomes, topic) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    let mut full = envelope(&topic, Some("schlüssel"), "");
    full.payload = Some(vec![0, 0xff, b'\n']);
    full.kind = "order.placed".to_owned();
    full.attempt = 3;
    for (name, value) in [("trace", &b"a"[..]), ("trace", b"b"), ("digest", &[0xff, 0]), ("empty", b"")] {
        full.headers.push(name, value);
    }
    let without_key = envelope(&topic, None, "no key");
    let empty = envelope(&topic, Some("empty"), "");
    let mut tombstone = envelope(&topic, Some("gone"), "");
    tombstone.payload = None;
    let mut old = envelope(&topic, Some("old"), "x");
    old.created_at -= Duration::from_secs(30 * 24 * 3_600);
    old.deliver_at = Some(old.created_at + Duration::from_secs(29 * 24 * 3_600));
    let sent = [full, without_key, empty, tombstone, old];
    let began_at = system_now();
    for (id, envelope) in (0..).zip(&sent) {
        outcomes.send(&*transport, id, envelope.clone());
    }
    outcomes.wait_for(sent.len(), broker.max_wait()).await;
    let stored = broker.stored(&topic).await;
    for envelope in &sent {
        let expected = StoredMessage::of(envelope);
        let found = stored.iter().find(|stored| stored.message_id() == Some(envelope.message_id));
        let Some(found) = found else { panic!("{envelope:?} is not stored") };
        assert_eq!(found, &StoredMessage { timestamp: found.timestamp, ..expected });
        if let Some(at) = found.timestamp {
            let (from, to) = (began_at - CLOCK_SKEW_MAX, system_now() + CLOCK_SKEW_MAX);
            assert!((from..=to).contains(&at), "its time is {at:?}, and it was sent at {began_at:?}");
        }
    }
}

/// `flush` returns 0 when every outcome has arrived, and may be called when there is nothing to wait for.
pub async fn flush_waits_for_every_outcome(broker: &dyn TransportUnderTest) {
    let (transport, outcomes, topic) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    assert_eq!(transport.flush(Duration::ZERO).await, 0);
    (0..200).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some("key"), "x")));
    assert_eq!(transport.flush(broker.max_wait()).await, 0);
    assert_eq!(outcomes.seen().len(), 200, "flush returned before the last outcome");
}

pub(super) fn first_undelivered(seen: &[(i64, RecordedOutcome)]) -> Option<&(i64, RecordedOutcome)> {
    seen.iter().find(|(_, seen)| *seen != RecordedOutcome::Delivered)
}
