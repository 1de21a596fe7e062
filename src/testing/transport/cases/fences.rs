use std::sync::Arc;

use super::super::outcomes::envelope;
use super::super::{Outcomes, Seen, TransportUnderTest};
use super::nothing_said;
use crate::transport::{FailureClass, FencedLane, LaneName, Run, Transport};

fn lane(topic: &str) -> LaneName {
    LaneName { outbox: "outbox_messages".into(), topic: topic.into(), lane: 3 }
}

async fn fenced(transport: &dyn Transport, topic: &str) -> Arc<dyn FencedLane> {
    transport.fence(lane(topic)).await.unwrap_or_else(|error| panic!("the lane could not be fenced: {error}"))
}

/// The payloads that a topic holds, in the order in which they are stored.
async fn payloads(broker: &dyn TransportUnderTest, topic: &str) -> Vec<String> {
    let stored = broker.stored(topic).await;
    stored.into_iter().map(|stored| String::from_utf8_lossy(&stored.payload.unwrap_or_default()).into_owned()).collect()
}

/// What was handed over for a lane, or is handed over later, is refused once the lane is fenced anew: by another client, as in
/// another process.
pub async fn a_fenced_lane_refuses_the_one_before_it(broker: &dyn TransportUnderTest) {
    let [zombie, owner] = [broker.transport(), broker.transport()];
    if !zombie.can_fence() {
        nothing_said("a_fenced_lane_refuses_the_one_before_it", "fences");
    }
    let (topic, outcomes) = (broker.new_topic().await, Outcomes::new());
    let send = |lane: &Arc<dyn FencedLane>, id: i64| {
        outcomes.send_fenced(&**lane, &Run::new(), [(id, envelope(&topic, Some("key"), &id.to_string()))]);
    };
    let earlier = fenced(&*zombie, &topic).await;
    send(&earlier, 0);
    outcomes.wait_for(1, broker.patience()).await;
    let later = fenced(&*owner, &topic).await;
    send(&later, 1);
    outcomes.wait_for(2, broker.patience()).await;
    send(&earlier, 2);
    outcomes.wait_for(3, zombie.delivery_timeout() + broker.patience()).await;
    assert!(!earlier.is_open(), "it goes on after it was refused");
    send(&earlier, 3);
    send(&later, 4);
    outcomes.wait_for(5, broker.patience()).await;
    let classes = [0, 1, 2, 3, 4].map(|id| outcomes.of(id).and_then(|seen| seen.class()));
    assert_eq!(classes[2], Some(FailureClass::Fenced), "{:?}", outcomes.of(2));
    assert!(classes[3].is_some(), "{:?}", outcomes.of(3));
    assert_eq!([classes[0], classes[1], classes[4]], [None; 3], "{:?}", outcomes.seen());
    assert!(later.is_open());
    assert_eq!(payloads(broker, &topic).await, ["0", "1", "4"]);
}

/// Many messages of one key that are under way at once are stored in their order.
pub async fn a_fenced_lane_keeps_the_order_of_a_run(broker: &dyn TransportUnderTest) {
    let transport = broker.transport();
    if !transport.can_fence() {
        nothing_said("a_fenced_lane_keeps_the_order_of_a_run", "fences");
    }
    let (topic, outcomes, run) = (broker.new_topic().await, Outcomes::new(), Run::new());
    let lane = fenced(&*transport, &topic).await;
    for id in 0..200 {
        outcomes.send_fenced(&*lane, &run, [(id, envelope(&topic, Some("key"), &id.to_string()))]);
    }
    let seen = outcomes.wait_for(200, broker.patience()).await;
    assert!(seen.iter().all(|(_, seen)| *seen == Seen::Delivered), "{seen:?}");
    let expected: Vec<String> = (0..200).map(|id| id.to_string()).collect();
    assert_eq!(payloads(broker, &topic).await, expected);
    assert_eq!(transport.flush(broker.patience()).await, 0);
}

/// A message that the broker refuses takes the later ones of its run with it, and no message of another.
pub async fn a_refused_message_stops_its_run_and_no_other(broker: &dyn TransportUnderTest) {
    let transport = broker.transport();
    let Some(bytes) = broker.payload_bytes_refused().filter(|_| transport.can_fence()) else {
        nothing_said("a_refused_message_stops_its_run_and_no_other", "fences and a limit");
    };
    let (topic, outcomes) = (broker.new_topic().await, Outcomes::new());
    let (lane, runs) = (fenced(&*transport, &topic).await, [Run::new(), Run::new()]);
    let payload = |id: i64| if id == 5 { "x".repeat(bytes) } else { id.to_string() };
    // Of three partitions they are in two: what is refused with the whole request it was in is of the one.
    let key = |id: i64| if (10..20).contains(&id) { "another" } else { "key" };
    let message = |id: i64| (id, envelope(&topic, Some(key(id)), &payload(id)));
    outcomes.send_fenced(&*lane, &runs[0], (0..10).map(message));
    outcomes.send_fenced(&*lane, &runs[1], (10..20).map(message));
    let seen = outcomes.wait_for(20, transport.delivery_timeout() + broker.patience()).await;
    let delivers = |id: &i64| outcomes.of(*id) == Some(Seen::Delivered);
    let class = |id: i64| outcomes.of(id).and_then(|seen| seen.class());
    // Its neighbours may share its request, and its fate.
    let refused = (0..10).find(|id| !delivers(id)).filter(|id| *id <= 5).expect("it is not delivered");
    assert_eq!(class(refused), Some(FailureClass::RecordRefused), "{seen:?}");
    for id in refused + 1..10 {
        assert_eq!(class(id), Some(FailureClass::Aborted), "{id} is behind one of its run: {seen:?}");
    }
    assert!((10..20).all(|id| delivers(&id)), "another run was kept: {seen:?}");
    let stored = payloads(broker, &topic).await;
    let delivered: Vec<i64> = seen.iter().filter(|(_, seen)| *seen == Seen::Delivered).map(|(id, _)| *id).collect();
    assert_eq!(stored.len(), delivered.len(), "what is stored was reported so: {delivered:?}, {stored:?}");
    assert!(lane.is_open(), "one message ended the lane");
    outcomes.send_fenced(&*lane, &Run::new(), [message(20)]);
    outcomes.wait_for(21, broker.patience()).await;
    assert_eq!(outcomes.of(20), Some(Seen::Delivered));
}
