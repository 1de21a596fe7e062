//! Nodes that leave their lanes to others for a while.

use std::time::Duration;

use tokio::time::Instant;

use super::World;
use super::lanes::{owned, world};
use crate::store::{Call, Fault, RowKey, StoreError};
use crate::transport::{FailureClass, MemoryTransport, ScriptedResponse};

/// Its broker answers probes but takes nothing, so the breaker opens again and again.
#[tokio::test(start_paused = true)]
async fn a_node_whose_broker_only_answers_probes_yields() {
    let world = world();
    let mut other: World = world.neighbour();
    other.broker = MemoryTransport::new();
    other.broker.set_delivery_timeout(Duration::from_secs(25));
    let (first, second) = (world.start().await, other.start().await);
    world.until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    other.broker.respond_when(ScriptedResponse::Fail(FailureClass::Connection), |_| true);
    let failed = Instant::now();
    for key in 0..50 {
        let row = world.commit_keyed(&key.to_string());
        world.hand_over_keyed(row, &key.to_string(), true);
    }
    world.until("one gave its lanes up", || owned(&second) == 0 && owned(&first) == 16).await;
    assert!(failed.elapsed() < Duration::from_secs(20), "{:?}", failed.elapsed());
    assert_eq!(second.status().asleep_topics.len(), 1);
    world.delivered(50).await;
    world.drained().await;
    other.broker.clear_responses();
    world.until("it is back", || owned(&first) == 8 && owned(&second) == 8).await;
    assert!(second.status().asleep_topics.is_empty());
}

/// The lock blocks every node, so all would sleep, and go on sleeping after it is gone.
#[tokio::test(start_paused = true)]
async fn no_node_leaves_its_lanes_because_the_table_is_locked() {
    let world = world();
    let other = world.neighbour();
    let (first, second) = (world.start().await, other.start().await);
    world.until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    let reads = world.store.calls(Call::LaneEntries);
    for _ in 0..60 {
        world.store.inject(Call::LaneEntries, Fault::Refused(StoreError::Conflict("lock timeout".into())));
    }
    let key = world.commit_keyed("1");
    world.hand_over_keyed(key, "1", true);
    world.until("it was read in vain", || world.store.calls(Call::LaneEntries) >= reads + 59).await;
    assert!(first.status().asleep_topics.is_empty() && second.status().asleep_topics.is_empty());
    assert_eq!((owned(&first), owned(&second)), (8, 8));
    assert_eq!(world.delivered(1).await, [key.message_id]);
}

/// An outage of all nodes costs no more than its own time.
#[tokio::test(start_paused = true)]
async fn nodes_do_not_sleep_through_the_end_of_an_outage() {
    let world = world();
    let other = world.neighbour();
    let (first, second) = (world.start().await, other.start().await);
    world.until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    world.broker.go_down();
    let rows: Vec<RowKey> = (0..50).map(|key| world.commit_keyed(&key.to_string())).collect();
    tokio::time::sleep(Duration::from_secs(40)).await;
    world.broker.go_up();
    let back = Instant::now();
    assert_eq!(world.delivered(rows.len()).await.len(), rows.len());
    assert!(back.elapsed() < Duration::from_secs(6), "{:?}", back.elapsed());
}
