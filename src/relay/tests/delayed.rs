//! Messages that are sent later.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{World, envelope, handed_over};
use crate::limits::{Limits, READ_RETRY_MAX};
use crate::relay::direct::queue::HandedOver;
use crate::store::{Call, Fault, InsertOptions, RowKey, StoreError};

/// How much virtual time a poll, a claim and the steps between them take.
const PROMPT: Duration = Duration::from_millis(12);

const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A relay that sleeps for an hour unless it is woken.
fn sleepy() -> World {
    let limits = Limits { poll_interval: Duration::from_secs(3_600), ..Limits::default() };
    World { limits, ..World::new() }
}

/// Commits a delayed message and hands it over, as the hook does.
fn commit_delayed(world: &World, delay: Duration) -> RowKey {
    let due_at = world.link.now().unwrap() + delay;
    let key = world.store.insert(envelope("orders"), InsertOptions::default().deliver_after(delay));
    world.link.hand_over(vec![HandedOver { due_at: Some(due_at), ..handed_over(key, "orders") }]);
    key
}

#[tokio::test(start_paused = true)]
async fn each_is_sent_in_its_time_and_not_before() {
    let world = sleepy();
    let _relay = world.start().await;
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    // The nearer ones come later and wake the poller; one is shorter than any staleness.
    let delays = [90_000, 3_000, 1_500, 250, 40].map(Duration::from_millis);
    for delay in delays {
        commit_delayed(&world, delay);
    }
    for (sent, delay) in delays.iter().rev().enumerate() {
        world.delivered(sent + 1).await;
        let late = began.elapsed().checked_sub(*delay);
        assert!(late.is_some_and(|late| late <= PROMPT), "{delay:?} was sent after {:?}", began.elapsed());
    }
    world.drained().await;
    assert_eq!(world.store.calls(Call::Confirm), 0, "delayed messages are not confirmed");
}

#[tokio::test(start_paused = true)]
async fn messages_of_next_month_wake_nobody() {
    let world = sleepy();
    let _relay = world.start().await;
    sleep(Duration::from_secs(1)).await;
    let polls = world.store.calls(Call::Poll);
    for _ in 0..1_000 {
        commit_delayed(&world, MONTH);
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(world.store.calls(Call::Poll), polls);
    assert_eq!(world.store.calls(Call::Claim), 0);
}

/// Another node is in the middle of claiming the first due row, so nobody reports when the next one is due.
#[tokio::test(start_paused = true)]
async fn a_row_claimed_elsewhere_hides_no_later_one() {
    let world = World::new();
    let held = world.commit("orders");
    let _claimed_elsewhere = world.store.lock(held).unwrap();
    let _relay = world.start().await;
    sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    let delay = Duration::from_millis(730);
    let delayed = world.store.insert(envelope("orders"), InsertOptions::default().deliver_after(delay));
    assert_eq!(world.delivered(1).await, [delayed.message_id]);
    assert!(began.elapsed() <= delay + PROMPT, "sent after {:?}", began.elapsed());
}

/// Nobody else would look before the next poll, in an hour.
#[tokio::test(start_paused = true)]
async fn a_failed_poll_or_claim_is_repeated_soon() {
    for call in [Call::Poll, Call::Claim] {
        let world = sleepy();
        let _relay = world.start().await;
        sleep(Duration::from_secs(1)).await;
        world.store.inject(call, Fault::Refused(StoreError::Conflict("deadlock".into())));
        let (began, delay) = (Instant::now(), Duration::from_secs(3));
        commit_delayed(&world, delay);
        world.delivered(1).await;
        assert!(began.elapsed() <= delay + READ_RETRY_MAX + PROMPT, "{call:?}: sent after {:?}", began.elapsed());
    }
}

/// The running poll may have read before the commit.
#[tokio::test(start_paused = true)]
async fn a_commit_during_a_poll_is_seen() {
    let world = sleepy();
    let _relay = world.start().await;
    for steps in 0..20 {
        let began = Instant::now();
        // The first wakes the poller. The second is committed at each step of its poll.
        commit_delayed(&world, Duration::from_millis(500));
        sleep(Duration::from_millis(5)).await;
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        commit_delayed(&world, Duration::from_millis(100));
        world.delivered(2 * steps + 1).await;
        let elapsed = began.elapsed();
        assert!(elapsed <= Duration::from_millis(105) + PROMPT, "after {steps} steps: sent after {elapsed:?}");
        world.delivered(2 * steps + 2).await;
    }
}
