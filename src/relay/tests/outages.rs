use std::time::Duration;

use super::World;
use crate::relay::{StoreStatus, TransportStatus};
use crate::store::MemoryStore;
use crate::transport::FailureClass;

#[tokio::test(start_paused = true)]
async fn an_outage_writes_nothing_spends_nothing_and_ends_by_itself() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = World::on(store);
        let relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.delivered(1).await;
        world.drained().await;
        world.broker.go_down();
        for _ in 0..200 {
            world.commit_and_hand_over("orders");
        }
        world.until("the breaker is open", || matches!(relay.status().transport, TransportStatus::Down { .. })).await;
        tokio::time::sleep(Duration::from_secs(35)).await;
        let before = world.store.live_rows();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(world.store.live_rows(), before, "not one row was written");
        assert!(before.iter().all(|row| row.attempts == 0 && row.failures == 0));
        world.broker.go_up();
        world.delivered(201).await;
        world.drained().await;
        assert_eq!(relay.status().transport, TransportStatus::Up);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_an_outage_with_its_own_name() {
    let world = World::new();
    world.broker.go_down_as(FailureClass::Authentication);
    let relay = world.start().await;
    assert!(matches!(relay.status().transport, TransportStatus::Down { class: FailureClass::Authentication, .. }));
    world.commit("orders");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.store.live_rows()[0].failures, 0);
    world.broker.go_up();
    world.delivered(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_database_outage_is_survived() {
    let world = World::new();
    world.store.set_down(true);
    let relay = world.start().await;
    assert!(matches!(relay.status().store, StoreStatus::Down { .. }));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(matches!(relay.status().store, StoreStatus::Down { since, .. } if since >= Duration::from_secs(30)));
    world.store.set_down(false);
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    world.drained().await;
    assert_eq!(relay.status().store, StoreStatus::Up);
}
