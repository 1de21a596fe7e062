use std::time::Duration;

use tokio::time::Instant;

use super::World;
use crate::limits::{Limits, SEND_BATCH_ROWS_MAX};
use crate::store::{Call, ClaimMode, Fault, MemoryStore, StoreError};
use crate::transport::{FailureClass, ScriptedResponse};

fn both_claim_modes() -> [(ClaimMode, World); 2] {
    [(ClaimMode::Locked, World::new()), (ClaimMode::Leased, World::on(MemoryStore::leasing()))]
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_drained_in_batches() {
    for (claim_mode, mut world) in both_claim_modes() {
        world.limits.claim_rows_max = 100;
        let keys: Vec<_> = (0..1_050).map(|_| world.commit("orders").message_id).collect();
        let _relay = world.start().await;
        let mut delivered = world.delivered(1_050).await;
        delivered.sort_unstable();
        assert_eq!(delivered, keys, "{claim_mode:?}");
        world.drained().await;
        assert_eq!(world.broker.sends(), 1_050, "{claim_mode:?}");
        assert!(world.store.calls(Call::Settle) == 0, "{claim_mode:?}: settled by the claims themselves");
    }
}

/// A traversal skips rows that somebody else has locked. Once they are free, they are found without a full scan.
#[tokio::test(start_paused = true)]
async fn a_row_that_a_traversal_skipped_is_sent_when_it_is_free() {
    let mut world = World::new();
    world.limits.claim_rows_max = 10;
    let locked = world.commit("orders");
    let lock = world.store.lock(locked).expect("nobody else has it");
    let others: Vec<_> = (0..95).map(|_| world.commit("orders").message_id).collect();
    let _relay = world.start().await;
    let mut delivered = world.delivered(95).await;
    delivered.sort_unstable();
    assert_eq!(delivered, others);
    let began = Instant::now();
    drop(lock);
    assert!(world.delivered(96).await.contains(&locked.message_id));
    assert!(began.elapsed() <= world.limits.poll_interval * 2, "{:?}", began.elapsed());
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_fall_due_one_after_the_other_wait_for_no_poll() {
    for (claim_mode, world) in both_claim_modes() {
        let began = Instant::now();
        for due_in_ms in [3_000, 3_020, 3_040] {
            world.commit_leased("orders", Duration::from_millis(due_in_ms));
        }
        let _relay = world.start().await;
        world.delivered(3).await;
        assert!(began.elapsed() < Duration::from_millis(3_100), "{claim_mode:?}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn rows_in_flight_at_the_end_of_the_window_are_held_and_settled_later() {
    for (claim_mode, world) in both_claim_modes() {
        world.broker.hold();
        let key = world.commit("orders");
        let _relay = world.start().await;
        world
            .until("the claim was closed", || {
                world.store.live_rows()[0].epoch > i32::from(claim_mode == ClaimMode::Leased)
            })
            .await;
        assert_eq!(world.broker.in_flight(), 1, "{claim_mode:?}");
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(world.broker.sends(), 1, "{claim_mode:?}: the lease is extended");
        world.broker.release();
        assert_eq!(world.delivered(1).await, [key.message_id]);
        world.drained().await;
    }
}

/// After a refusal, a claim gives the rest of its rows back. Its close does that: they are due at once, under the next
/// epoch, with no separate release.
#[tokio::test(start_paused = true)]
async fn rows_of_a_claim_that_were_not_sent_go_back_with_its_close() {
    for (claim_mode, world) in both_claim_modes() {
        world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Topic), |_| true);
        let rows = SEND_BATCH_ROWS_MAX + 5;
        for _ in 0..rows {
            world.commit("orders");
        }
        let _relay = world.start().await;
        world.until("the claim is closed", || world.store.calls(Call::Close) > 0).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            world.broker.sends(),
            SEND_BATCH_ROWS_MAX,
            "{claim_mode:?}: the relay backs off at the first refusal"
        );
        let written = if claim_mode == ClaimMode::Leased { 2 } else { 0 };
        for row in world.store.live_rows() {
            assert_eq!((row.epoch, row.failures), (written, 0), "{claim_mode:?}: {row:?}");
            assert!(row.due_at <= world.store.now(), "{claim_mode:?}: {row:?}");
        }
        world.broker.clear_responses();
        world.delivered(rows).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_commit_sends_nothing_again() {
    let world = World::new();
    world.store.inject(Call::Close, Fault::Refused(StoreError::Unreachable("as the test says".into())));
    for _ in 0..20 {
        world.commit("orders");
    }
    let _relay = world.start().await;
    world.delivered(20).await;
    world.drained().await;
    assert_eq!(world.broker.sends(), 20, "settled by id, not sent again");
}

/// In a trial, a claim takes one row. If that row is delivered and cannot be settled, every claim finds it again.
#[tokio::test(start_paused = true)]
async fn a_claim_without_effect_is_not_repeated_at_once() {
    let mut world = World::new();
    (world.limits.claim_rows_max, world.limits.claim_workers) = (1, 1);
    world.store.inject(Call::Close, Fault::Refused(StoreError::Unreachable("as the test says".into())));
    world.store.inject(Call::Settle, Fault::Refused(StoreError::Statement("as the test says".into())));
    world.commit("orders");
    let _relay = world.start().await;
    world.delivered(1).await;
    world.until("its settle has failed", || world.store.calls(Call::Settle) == 1).await;
    // Not by a sleep: virtual time stands still while any task is busy.
    tokio::time::advance(world.limits.poll_interval * 2).await;
    let before = world.store.calls(Call::Claim);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let claims = world.store.calls(Call::Claim) - before;
    assert!((1..=2).contains(&claims), "{claims} claims without a moment between them");
    world.commit("orders");
    world.delivered(2).await;
    world.drained().await;
    assert_eq!(world.broker.sends(), 2, "and nothing is sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_row_becomes_a_dead_letter_and_stops_no_other() {
    for (claim_mode, world) in both_claim_modes() {
        let keys: Vec<_> = (0..5).map(|_| world.commit("orders")).collect();
        assert!(world.store.poison(keys[2]));
        let _relay = world.start().await;
        world.delivered(4).await;
        world.drained().await;
        let dead = world.store.dead_letter_rows();
        assert_eq!(dead.len(), 1, "{claim_mode:?}");
        assert_eq!(dead[0].key, keys[2]);
        assert!(dead[0].reason.starts_with("poisoned"), "{}", dead[0].reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_backlog_starves_no_other_topic() {
    let mut world = World::new();
    world.limits.claim_rows_max = 10;
    world.limits.claim_workers = 1;
    for _ in 0..1_000 {
        world.commit("orders");
    }
    world.commit("invoices");
    let _relay = world.start().await;
    world.drained().await;
    let order = world.broker.delivered();
    let place = order.iter().position(|envelope| &*envelope.topic == "invoices").unwrap();
    assert!(place <= 20, "the invoice came as number {place}");
}

#[tokio::test(start_paused = true)]
async fn two_relays_share_a_backlog_without_duplicates() {
    let world = World::new();
    let other = World { store: world.store.clone(), broker: world.broker.clone(), ..World::new() };
    for _ in 0..3_000 {
        world.commit("orders");
    }
    let (_one, _two) = (world.start().await, other.start().await);
    world.delivered(3_000).await;
    world.drained().await;
    assert_eq!(world.broker.sends(), 3_000);
}

/// A claim that was read too late sends nothing. The next one of the same size would be late as well.
#[tokio::test(start_paused = true)]
async fn claims_that_come_too_late_are_made_smaller_until_they_come_in_time() {
    let mut world = World::new();
    world.limits = Limits { claim_rows_max: 64, claim_workers: 1, ..world.limits };
    let late = world.limits.claim_lease_duration + Duration::from_millis(1);
    for _ in 0..3 {
        world.store.inject(Call::Claim, Fault::Slow(late));
    }
    let keys: Vec<_> = (0..200).map(|_| world.commit("orders").message_id).collect();
    world.broker.hold();
    let _relay = world.start().await;
    world.until("a claim came in time", || world.broker.in_flight() > 0).await;
    assert_eq!(
        (world.store.calls(Call::Claim), world.broker.in_flight()),
        (4, 64 / 8),
        "the claim size was halved three times, without a wait"
    );
    world.broker.release();
    let mut delivered = world.delivered(200).await;
    assert_eq!(delivered[..64], keys[..64], "the oldest rows are sent first, and none is skipped");
    delivered.sort_unstable();
    assert_eq!(delivered, keys);
    world.drained().await;
    let claims = world.store.calls(Call::Claim) - 3;
    assert!(claims <= 4 + 200 / 64 + 2, "{claims}: they grow back");
    assert_eq!(world.broker.sends(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_statement_that_times_out_is_tried_with_fewer_rows() {
    let mut world = World::new();
    world.limits = Limits { claim_rows_max: 64, claim_workers: 1, ..world.limits };
    for _ in 0..2 {
        world.store.inject(Call::Claim, Fault::Refused(StoreError::TimedOut { after: Duration::from_secs(5) }));
    }
    for _ in 0..100 {
        world.commit("orders");
    }
    world.broker.hold();
    let _relay = world.start().await;
    world.until("a claim is there", || world.broker.in_flight() > 0).await;
    assert_eq!(world.broker.in_flight(), 64 / 4);
    world.broker.release();
    world.drained().await;
}

/// Each claim takes longer than its outcomes are waited for, as with a database on another continent.
#[tokio::test(start_paused = true)]
async fn a_database_far_away_is_drained() {
    for (claim_mode, world) in both_claim_modes() {
        for _ in 0..100 {
            world.store.inject(Call::Claim, Fault::Slow(world.limits.claim_window_duration * 2));
        }
        for _ in 0..3_000 {
            world.commit("orders");
        }
        let began = Instant::now();
        let _relay = world.start().await;
        world.delivered(3_000).await;
        assert!(began.elapsed() < world.limits.claim_window_duration * 10, "{claim_mode:?}: {:?}", began.elapsed());
        world.drained().await;
        assert_eq!(world.broker.sends(), 3_000, "{claim_mode:?}");
    }
}

/// One row is the smallest claim: it is not repeated without a pause.
#[tokio::test(start_paused = true)]
async fn a_claim_of_one_row_that_comes_too_late_is_not_repeated_at_once() {
    let mut world = World::new();
    world.limits = Limits { claim_rows_max: 1, claim_workers: 1, ..world.limits };
    let late = world.limits.claim_lease_duration + Duration::from_millis(1);
    for _ in 0..3 {
        world.store.inject(Call::Claim, Fault::Slow(late));
    }
    let began = Instant::now();
    world.commit("orders");
    let _relay = world.start().await;
    world.delivered(1).await;
    assert!(began.elapsed() >= (late + world.limits.poll_interval) * 3, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_relay_polls_once_a_poll_interval() {
    let world = World::new();
    let _relay = world.start().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = world.store.calls(Call::Poll);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.store.calls(Call::Poll) - before <= 60);
    assert_eq!(world.store.calls(Call::Claim), 0);
}
