use std::time::Duration;

use tokio::time::Instant;

use super::{World, envelope, handed_over, inline};
use crate::limits::{Limits, STALENESS};
use crate::message::MessageId;
use crate::store::{Call, Fault, InsertOptions, RowKey, StoreError};

#[tokio::test(start_paused = true)]
async fn a_handed_over_row_is_sent_without_a_poll() {
    let world = World::new();
    let relay = world.start().await;
    let start = Instant::now();
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    assert!(start.elapsed() < Duration::from_millis(100), "sent after {:?}", start.elapsed());
    world.drained().await;
    assert_eq!(world.store.calls(Call::Claim), 0, "a healthy relay claims nothing");
    assert!(relay.flush(Duration::from_secs(1)).await.is_settled());
}

#[tokio::test(start_paused = true)]
async fn rows_leave_in_the_order_of_their_commits_and_not_of_their_ids() {
    let world = World::new();
    let _relay = world.start().await;
    let inserted: Vec<_> = (0..100).map(|_| world.commit_leased("orders", STALENESS)).collect();
    let committed = || inserted.iter().rev();
    committed().for_each(|key| world.hand_over(*key, "orders"));
    let ids: Vec<_> = committed().map(|key| key.message_id).collect();
    assert_eq!(world.delivered(100).await, ids);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_rolled_back_is_never_sent() {
    let world = World::new();
    let _relay = world.start().await;
    world.hand_over(RowKey { id: 77, message_id: MessageId::new() }, "orders");
    let pending = world.store.insert_uncommitted(envelope("orders"), InsertOptions::default().leased_for(STALENESS));
    world.hand_over(pending.key(), "orders");
    drop(pending);
    let kept = world.commit_and_hand_over("orders");
    world.drained().await;
    assert_eq!(world.delivered(1).await, [kept.message_id]);
    assert_eq!(world.broker.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_row_handed_over_before_its_commit_is_swept_after_its_staleness() {
    let world = World::new();
    let _relay = world.start().await;
    let pending = world.store.insert_uncommitted(envelope("orders"), InsertOptions::default().leased_for(STALENESS));
    let key = pending.key();
    world.hand_over(key, "orders");
    world.until("the confirm has missed it", || world.store.calls(Call::Confirm) == 1).await;
    let start = Instant::now();
    pending.commit();
    assert_eq!(world.delivered(1).await, [key.message_id]);
    assert!(start.elapsed() > Duration::from_secs(2) && start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_confirm_that_fails_leaves_its_rows_to_the_sweeper() {
    let world = World::new();
    let _relay = world.start().await;
    world.store.inject(Call::Confirm, Fault::Refused(StoreError::Conflict("as the test says".into())));
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    world.drained().await;
    assert_eq!(world.broker.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_inline_row_needs_no_confirm() {
    let world = World::new();
    let _relay = world.start().await;
    let message = envelope("orders");
    let key = world.store.insert(message.clone(), InsertOptions::default().leased_for(STALENESS));
    world.link.hand_over(vec![inline(key, message, world.now())]);
    assert_eq!(world.delivered(1).await, [key.message_id]);
    world.drained().await;
    assert_eq!(world.store.calls(Call::Confirm), 0);
}

/// One transaction was verified by its COMMIT, the next was not.
#[tokio::test(start_paused = true)]
async fn inline_rows_wait_for_those_before_them_that_are_read() {
    let world = World::new();
    let _relay = world.start().await;
    let commit = |is_inline: bool| {
        let message = envelope("orders");
        let key = world.store.insert(message.clone(), InsertOptions::default().leased_for(STALENESS));
        if is_inline { inline(key, message, world.now()) } else { handed_over(key, "orders") }
    };
    let rows: Vec<_> = [true, false, true, true, false, true].into_iter().map(commit).collect();
    let committed: Vec<_> = rows.iter().map(|row| row.row.message_id).collect();
    world.link.hand_over(rows);
    assert_eq!(world.delivered(6).await, committed);
    assert_eq!(world.store.calls(Call::Confirm), 1);
}

#[tokio::test(start_paused = true)]
async fn inline_rows_leave_although_others_cannot_be_read() {
    let world = World::new();
    let _relay = world.start().await;
    let away = StoreError::TimedOut { after: Duration::from_secs(5) };
    world.store.inject(Call::Confirm, Fault::Refused(away));
    let read = world.commit_leased("orders", STALENESS);
    let message = envelope("orders");
    let key = world.store.insert(message.clone(), InsertOptions::default().leased_for(STALENESS));
    world.link.hand_over(vec![handed_over(read, "orders"), inline(key, message, world.now())]);
    assert_eq!(world.delivered(2).await, [key.message_id, read.message_id], "the sweeper has the other");
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_born_lease_is_over_is_not_sent_by_the_dispatcher() {
    let mut world = World::new();
    world.limits.poll_interval = Duration::from_secs(60);
    let _relay = world.start().await;
    let key = world.commit_leased("orders", Duration::from_millis(100));
    world.hand_over(key, "orders");
    world.until("it was confirmed", || world.store.calls(Call::Confirm) == 1).await;
    assert_eq!(world.broker.sends(), 0, "less than the margin is left of the lease");
    assert_eq!(world.delivered(1).await, [key.message_id], "the sweeper has it");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_leaves_the_rest_to_the_sweeper() {
    let mut world = World::new();
    world.limits.queue_rows_max = 10;
    let _relay = world.start().await;
    let keys: Vec<_> = (0..25).map(|_| world.commit_leased("orders", STALENESS)).collect();
    world.link.hand_over(keys.iter().map(|key| handed_over(*key, "orders")).collect());
    let start = Instant::now();
    world.delivered(10).await;
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(world.broker.sends(), 10);
    assert_eq!(world.delivered(25).await.len(), 25);
    world.drained().await;
    assert_eq!(world.broker.sends(), 25);
}

#[tokio::test(start_paused = true)]
async fn more_than_may_be_in_flight_waits_for_room() {
    let mut world = World::new();
    world.limits = Limits { in_flight_max: 4, ..world.limits };
    world.broker.hold();
    let relay = world.start().await;
    for _ in 0..10 {
        world.commit_and_hand_over("orders");
    }
    world.until("four are in flight", || world.broker.in_flight() == 4).await;
    assert_eq!(relay.status().in_flight, 4);
    world.broker.release();
    world.delivered(10).await;
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_extended_while_its_message_is_in_flight() {
    let world = World::new();
    world.broker.hold();
    let _relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.broker.sends(), 1, "no sweeper claimed it");
    world.broker.release();
    assert_eq!(world.delivered(1).await, [key.message_id]);
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn acknowledged_rows_are_settled_after_the_database_is_back_and_not_sent_again() {
    let world = World::new();
    world.broker.hold();
    let _relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    world.store.set_down(true);
    world.broker.release();
    assert_eq!(world.delivered(1).await, [key.message_id]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.store.set_down(false);
    world.drained().await;
    assert_eq!(world.broker.sends(), 1);
}
