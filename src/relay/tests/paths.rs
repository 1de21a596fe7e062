//! What a message says about the path and the lane by which it is sent.

use super::lanes::{TOPIC, world};
use super::{World, envelope, inline};
use crate::lane::lane_of;
use crate::limits::{LANES, STALENESS};
use crate::store::InsertOptions;
use crate::topic::Topic;
use crate::transport::{FailureClass, ScriptedResponse};

/// The path, lane and attempt of each message, in the order in which they were delivered.
fn sent(world: &World) -> Vec<(Option<&'static str>, Option<u16>, u32)> {
    world.broker.delivered().iter().map(|message| (message.path, message.lane, message.attempt)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_names_the_path_by_which_it_is_sent() {
    let world = World::new();
    let _relay = world.start().await;
    world.commit_and_hand_over("orders");
    world.delivered(1).await;
    let message = envelope("orders");
    let row = world.store.insert(message.clone(), InsertOptions::default().leased_for(STALENESS));
    world.link.hand_over(vec![inline(row, message, world.now())]);
    world.delivered(2).await;
    world.commit("orders");
    world.delivered(3).await;
    world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
    world.commit_and_hand_over("orders");
    world.delivered(4).await;
    let expected =
        [(Some("confirmed"), None, 1), (Some("inline"), None, 1), (Some("swept"), None, 1), (Some("swept"), None, 2)];
    assert_eq!(sent(&world), expected, "the last one failed first");
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_lane_names_the_lane() {
    let world = world();
    let _relay = world.start().await;
    world.commit_keyed_and_hand_over("a");
    world.delivered(1).await;
    assert_eq!(sent(&world), [(Some("lane"), Some(lane_of("a", LANES)), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_fenced_lane_names_the_lane() {
    let mut world = World::new();
    world.topics.push(Topic::new(TOPIC).ordered_by_key().fenced());
    let _relay = world.start().await;
    world.commit_keyed_and_hand_over("a");
    world.delivered(1).await;
    assert_eq!(sent(&world), [(Some("lane"), Some(lane_of("a", LANES)), 1)]);
}
