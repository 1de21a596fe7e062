use std::time::Duration;

use super::lanes::{TOPIC, owned, world};
use crate::limits::LANES;
use crate::transport::{FailureClass, ScriptedResponse};

/// Such rows are sent outside of the lanes and in no order: a row that waits after a failure does not hold the lane.
/// Nothing is lost.
#[tokio::test(start_paused = true)]
async fn rows_that_waited_when_a_topic_became_ordered_are_sent_beside_its_lanes() {
    let world = world();
    let before = [world.commit(TOPIC), world.commit(TOPIC)];
    let waits = before[0].message_id;
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Temporary), {
        let mut failures = 0;
        move |sent| {
            failures += usize::from(sent.message_id == waits);
            sent.message_id == waits && failures == 1
        }
    });
    let relay = world.start().await;
    world.until("it owns every lane", || owned(&relay) == usize::from(LANES)).await;
    let in_lane = world.commit_keyed("a");
    world.hand_over_keyed(in_lane, "a", true);
    let delivered = world.delivered(3).await;
    world.drained().await;
    assert_eq!(delivered.last(), Some(&waits), "it came again after its back-off: {delivered:?}");
    assert!(delivered.contains(&in_lane.message_id) && delivered.contains(&before[1].message_id));
    assert_eq!(world.broker.sends(), 4, "each of the others once");
    relay.shutdown(Duration::from_secs(5)).await;
}
