//! Drives the engine beyond each bound of `limits.rs` that it keeps.

use std::time::Duration;

use tokio::time::Instant;

use super::{World, envelope, handed_over};
use crate::limits::{ATTEMPTS_MAX, ERROR_TEXT_BYTES_MAX, Limits, STALENESS, TEMPORARY_WAIT_MAX};
use crate::retry::Fixed;
use crate::store::{Call, InsertOptions};
use crate::topic::Topic;
use crate::transport::{FailureClass, ScriptedResponse};

fn commit_large(world: &World, bytes: usize) {
    let mut envelope = envelope("orders");
    envelope.payload = Some(vec![7; bytes]);
    world.store.insert(envelope, InsertOptions::default());
}

#[tokio::test(start_paused = true)]
async fn a_confirm_reads_no_more_rows_than_it_may() {
    let mut world = World::new();
    world.limits.confirm_rows_max = 10;
    let _relay = world.start().await;
    let keys: Vec<_> = (0..95).map(|_| world.commit_leased("orders", STALENESS)).collect();
    world.link.hand_over(keys.iter().map(|key| handed_over(*key, "orders")).collect());
    world.drained().await;
    assert!(world.store.calls(Call::Confirm) >= 10);
    assert_eq!(world.broker.sends(), 95);
}

#[tokio::test(start_paused = true)]
async fn a_settle_removes_no_more_rows_than_it_may() {
    let mut world = World::new();
    world.limits.settle_rows_max = 10;
    world.broker.hold();
    let _relay = world.start().await;
    for _ in 0..95 {
        world.commit_and_hand_over("orders");
    }
    world.until("all are in flight", || world.broker.in_flight() == 95).await;
    world.broker.release();
    world.drained().await;
    assert!(world.store.calls(Call::Settle) >= 10);
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_no_more_bytes_than_it_may_but_always_a_row() {
    let mut world = World::new();
    world.limits = Limits { claim_bytes_max: 1_000, claim_workers: 1, ..world.limits };
    for _ in 0..10 {
        commit_large(&world, 5_000);
    }
    let _relay = world.start().await;
    world.drained().await;
    assert!(world.store.calls(Call::Claim) >= 10, "one row each");
    assert_eq!(world.broker.sends(), 10);
}

/// The claim has locked all of them, so a poll of the other worker finds nothing meanwhile.
#[tokio::test(start_paused = true)]
async fn rows_beyond_the_bytes_of_a_claim_wait_for_no_poll() {
    let mut world = World::new();
    world.limits = Limits { claim_bytes_max: 10_000, claim_workers: 2, ..world.limits };
    world.broker.hold();
    for _ in 0..10 {
        commit_large(&world, 5_000);
    }
    let _relay = world.start().await;
    world.until("a claim is under way", || world.broker.in_flight() == 2).await;
    world.until("the other worker found nothing", || world.store.calls(Call::Claim) >= 2).await;
    let began = Instant::now();
    world.broker.release();
    world.drained().await;
    assert!(began.elapsed() < world.limits.poll_interval / 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn no_more_bytes_are_in_flight_than_may_be() {
    let mut world = World::new();
    world.limits = Limits { in_flight_bytes_max: 10_000, ..world.limits };
    for _ in 0..50 {
        commit_large(&world, 1_000);
    }
    world.broker.hold();
    let _relay = world.start().await;
    world.until("some are in flight", || world.broker.in_flight() > 0).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // Each claim may exceed its share by the one row that it always takes.
    assert!(world.broker.in_flight() <= 12, "{} of 1,000 bytes are in flight", world.broker.in_flight());
    world.broker.release();
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_temporary_failure_waits_no_longer_than_its_bound() {
    let mut world = World::new();
    world.topics = vec![Topic::new("orders").retry(Fixed::seconds(&[86_400]))];
    world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Temporary));
    let _relay = world.start().await;
    let start = tokio::time::Instant::now();
    world.commit_and_hand_over("orders");
    world.delivered(1).await;
    assert!(start.elapsed() <= TEMPORARY_WAIT_MAX + Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_kept_error_is_no_longer_than_its_bound() {
    let world = World::new();
    let long = "x".repeat(3 * ERROR_TEXT_BYTES_MAX);
    let key = world.commit("orders");
    let held = crate::store::Held { key, epoch: 0 };
    let failed =
        crate::store::Failed { held, wait: Duration::ZERO, spends_attempt: true, class: "record", error: long };
    crate::store::Store::fail(&world.store, &[failed]).await.unwrap();
    assert_eq!(world.store.live_rows()[0].errors[0].error.len(), ERROR_TEXT_BYTES_MAX);
}

#[tokio::test(start_paused = true)]
async fn no_more_claims_are_open_at_once_than_may_be() {
    for claim_workers in [1, 3] {
        let mut world = World::new();
        world.limits = Limits { claim_rows_max: 10, claim_workers, ..world.limits };
        for _ in 0..100 {
            world.commit("orders");
        }
        world.broker.hold();
        let _relay = world.start().await;
        world.until("they are open", || world.broker.in_flight() >= 10 * claim_workers).await;
        tokio::time::sleep(world.limits.claim_window_duration / 2).await;
        assert_eq!(world.broker.in_flight(), 10 * claim_workers);
        world.broker.release();
        world.drained().await;
    }
}

/// Somebody holds the rows locked, so their settles wait.
#[tokio::test(start_paused = true)]
async fn no_more_settles_run_at_once_than_allowed() {
    for settle_workers in [1, 3] {
        let mut world = World::new();
        world.limits = Limits { settle_rows_max: 1, settle_workers, ..world.limits };
        world.broker.hold();
        let _relay = world.start().await;
        let keys: Vec<_> = (0..5).map(|_| world.commit_and_hand_over("orders")).collect();
        world.until("they are in flight", || world.broker.in_flight() == keys.len()).await;
        let locks: Vec<_> = keys.iter().map(|key| world.store.lock(*key).unwrap()).collect();
        world.broker.release();
        // Each first tries without waiting.
        let most = 2 * settle_workers as u64;
        world.until("they wait", || world.store.calls(Call::Settle) >= most).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(world.store.calls(Call::Settle), most);
        drop(locks);
        world.drained().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_dead_lettered_after_the_default_attempts() {
    let mut world = World::new();
    world.topics = vec![Topic::new("orders")];
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), |_| true);
    let _relay = world.start().await;
    let began = tokio::time::Instant::now();
    world.commit_and_hand_over("orders");
    while world.store.dead_letter_rows().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(7_200), "{} attempts", world.broker.sends());
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(world.broker.sends(), usize::try_from(ATTEMPTS_MAX).unwrap());
    // Half of each wait more or less, by jitter.
    let minutes = began.elapsed().as_secs() / 60;
    assert!((13..=45).contains(&minutes), "{minutes} minutes");
}
