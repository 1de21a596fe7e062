use std::sync::Arc;

use super::super::outcomes::envelope;
use super::super::{OutcomeRecorder, RecordedOutcome, TransportUnderTest};
use super::missing_capability;
use crate::transport::{FailureClass, FencedLane, KeySequence, LaneName, Transport};

pub(super) fn lane(topic: &str) -> LaneName {
    LaneName { outbox: "outbox_messages".into(), topic: topic.into(), lane: 3 }
}

async fn fenced(transport: &dyn Transport, topic: &str) -> Arc<dyn FencedLane> {
    transport.fence(lane(topic)).await.unwrap_or_else(|error| panic!("the lane could not be fenced: {error}"))
}

/// The payloads in a topic, in the order in which they are stored.
pub(super) async fn payloads(broker: &dyn TransportUnderTest, topic: &str) -> Vec<String> {
    let stored = broker.stored(topic).await;
    stored.into_iter().map(|stored| String::from_utf8_lossy(&stored.payload.unwrap_or_default()).into_owned()).collect()
}

/// Once another client fences a lane anew, as another process would, messages handed over for it before or later are refused.
pub async fn fencing_a_lane_shuts_out_the_previous_owner(broker: &dyn TransportUnderTest) {
    let [zombie, owner] = [broker.transport(), broker.transport()];
    if !zombie.supports_fencing() {
        missing_capability("fencing_a_lane_shuts_out_the_previous_owner", "fences");
    }
    let (topic, outcomes) = (broker.new_topic().await, OutcomeRecorder::new());
    let send = |lane: &Arc<dyn FencedLane>, id: i64| {
        outcomes.send_fenced(&**lane, &KeySequence::new(), [(id, envelope(&topic, Some("key"), &id.to_string()))]);
    };
    let earlier = fenced(&*zombie, &topic).await;
    send(&earlier, 0);
    outcomes.wait_for(1, broker.max_wait()).await;
    let later = fenced(&*owner, &topic).await;
    send(&later, 1);
    outcomes.wait_for(2, broker.max_wait()).await;
    send(&earlier, 2);
    outcomes.wait_for(3, zombie.delivery_timeout() + broker.max_wait()).await;
    assert!(!earlier.is_open(), "the lane is still open after the refusal");
    send(&earlier, 3);
    send(&later, 4);
    outcomes.wait_for(5, broker.max_wait()).await;
    let classes = [0, 1, 2, 3, 4].map(|id| outcomes.of(id).and_then(|seen| seen.class()));
    assert_eq!(classes[2], Some(FailureClass::Fenced), "{:?}", outcomes.of(2));
    assert!(classes[3].is_some(), "{:?}", outcomes.of(3));
    assert_eq!([classes[0], classes[1], classes[4]], [None; 3], "{:?}", outcomes.seen());
    assert!(later.is_open());
    assert_eq!(payloads(broker, &topic).await, ["0", "1", "4"]);
}

/// Many messages of one key in flight at once are stored in order.
pub async fn fenced_lane_keeps_the_order_of_a_sequence(broker: &dyn TransportUnderTest) {
    let transport = broker.transport();
    if !transport.supports_fencing() {
        missing_capability("fenced_lane_keeps_the_order_of_a_sequence", "fences");
    }
    let (topic, outcomes, sequence) = (broker.new_topic().await, OutcomeRecorder::new(), KeySequence::new());
    let lane = fenced(&*transport, &topic).await;
    for id in 0..200 {
        outcomes.send_fenced(&*lane, &sequence, [(id, envelope(&topic, Some("key"), &id.to_string()))]);
    }
    let seen = outcomes.wait_for(200, broker.max_wait()).await;
    assert!(seen.iter().all(|(_, seen)| *seen == RecordedOutcome::Delivered), "{seen:?}");
    let expected: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    assert_eq!(payloads(broker, &topic).await, expected);
    assert_eq!(transport.flush(broker.max_wait()).await, 0);
}

/// A message that the broker refuses stops the later ones of its sequence, and none of another.
pub async fn refused_message_stops_only_its_own_sequence(broker: &dyn TransportUnderTest) {
    let transport = broker.transport();
    let Some(bytes) = broker.oversized_payload_bytes().filter(|_| transport.supports_fencing()) else {
        missing_capability("refused_message_stops_only_its_own_sequence", "fences and a limit");
    };
    let (topic, outcomes) = (broker.new_topic().await, OutcomeRecorder::new());
    let (lane, sequences) = (fenced(&*transport, &topic).await, [KeySequence::new(), KeySequence::new()]);
    let payload = |id: i64| if id == 5 { "x".repeat(bytes) } else { id.to_string() };
    // The two keys are in two of three partitions: a refused request takes only messages of its own partition with it.
    let key = |id: i64| if (10..20).contains(&id) { "another" } else { "key" };
    let message = |id: i64| (id, envelope(&topic, Some(key(id)), &payload(id)));
    outcomes.send_fenced(&*lane, &sequences[0], (0..10).map(message));
    outcomes.send_fenced(&*lane, &sequences[1], (10..20).map(message));
    let seen = outcomes.wait_for(20, transport.delivery_timeout() + broker.max_wait()).await;
    let delivers = |id: &i64| outcomes.of(*id) == Some(RecordedOutcome::Delivered);
    let class = |id: i64| outcomes.of(id).and_then(|seen| seen.class());
    // Its neighbours may share its request, and so its outcome.
    let refused = (0..10).find(|id| !delivers(id)).filter(|id| *id <= 5).expect("it is not delivered");
    assert_eq!(class(refused), Some(FailureClass::RecordRefused), "{seen:?}");
    for id in refused + 1..10 {
        assert_eq!(class(id), Some(FailureClass::Aborted), "{id} is behind a failed one of its sequence: {seen:?}");
    }
    assert!((10..20).all(|id| delivers(&id)), "another sequence was held back: {seen:?}");
    let stored = payloads(broker, &topic).await;
    let delivered: Vec<i64> =
        seen.iter().filter(|(_, seen)| *seen == RecordedOutcome::Delivered).map(|(id, _)| *id).collect();
    assert_eq!(
        stored.len(),
        delivered.len(),
        "the stored messages are those reported as delivered: {delivered:?}, {stored:?}"
    );
    assert!(lane.is_open(), "one message ended the lane");
    outcomes.send_fenced(&*lane, &KeySequence::new(), [message(20)]);
    outcomes.wait_for(21, broker.max_wait()).await;
    assert_eq!(outcomes.of(20), Some(RecordedOutcome::Delivered));
}
