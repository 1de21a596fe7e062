use std::time::Duration;

use super::World;
use crate::relay::{StoreStatus, TransportStatus};
use crate::store::{Call, Fault, Locking, MemoryStore, Store as _, StoreError};
use crate::transport::{FailureClass, ScriptedResponse};

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

/// In an outage the queue is empty at once, because new rows are dropped unread. That does not mean they are settled.
#[tokio::test(start_paused = true)]
async fn a_flush_in_an_outage_reports_it_or_waits_for_its_end() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = World::on(store);
        let relay = world.start().await;
        world.broker.go_down();
        world.commit_and_hand_over("orders");
        world.until("the breaker is open", || matches!(relay.status().transport, TransportStatus::Down { .. })).await;
        world.commit_and_hand_over("orders");
        assert!(!relay.flush(Duration::from_secs(10)).await.is_settled());
        assert_eq!(world.store.live_rows().len(), 2);
        world.broker.go_up();
        assert!(relay.flush(Duration::from_secs(60)).await.is_settled());
        assert!(world.store.live_rows().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_failed_rows_and_for_rows_that_others_settle() {
    let world = World::new();
    let relay = world.start().await;
    world.broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Temporary));
    let [retried, elsewhere] = [(); 2].map(|()| world.commit_and_hand_over("orders"));
    world.until("both have failed", || world.store.live_rows().iter().all(|row| row.failures == 1)).await;
    assert!(!relay.flush(Duration::from_millis(100)).await.is_settled(), "both wait for their next attempt");
    assert_eq!(world.store.settle(&[elsewhere], Locking::Skip).await.unwrap(), [elsewhere]);
    assert!(relay.flush(Duration::from_secs(10)).await.is_settled());
    assert_eq!(world.delivered(1).await, [retried.message_id]);
    let calls = world.store.calls(Call::Remaining);
    assert!(relay.flush(Duration::from_secs(10)).await.is_settled());
    assert_eq!(world.store.calls(Call::Remaining), calls, "rows that are known to be gone are not looked up again");
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

/// As during an ALTER TABLE: a health check that kills processes whose database is down would kill all of them.
#[tokio::test(start_paused = true)]
async fn a_table_that_is_locked_is_no_database_that_is_down() {
    let world = World::new();
    let relay = world.start().await;
    let polls = world.store.calls(Call::Poll);
    for _ in 0..30 {
        world.store.inject(Call::Poll, Fault::Refused(StoreError::Conflict("lock timeout".into())));
    }
    world.until("it has looked in vain", || world.store.calls(Call::Poll) >= polls + 20).await;
    assert_eq!(relay.status().store, StoreStatus::Up);
    let key = world.commit("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
}
