//! The full scan when an old snapshot makes it slow: nothing else waits for it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{World, envelope};
use crate::limits::{
    FULL_SCAN_DEPTH, FULL_SCAN_PAUSE_FACTOR, FULL_SCAN_RETRY_INTERVAL, FULL_SCAN_WAIT_MAX, STATEMENT_TIMEOUT,
};
use crate::relay::StoreStatus;
use crate::store::{Call, Fault, InsertOptions, StoreError};

const SECOND: Duration = Duration::from_secs(1);

/// A world in which every full scan takes this long.
fn slow_world(by: Duration) -> World {
    let world = World::new();
    (0..1_000).for_each(|_| world.store.inject(Call::FullScan, Fault::Slow(by)));
    world
}

#[tokio::test(start_paused = true)]
async fn a_slow_full_scan_is_rare_and_delays_no_sweep() {
    let world = slow_world(SECOND * 3);
    let relay = world.start().await;
    let (began, mut swept) = (Instant::now(), 0);
    while began.elapsed() < SECOND * 600 {
        sleep(Duration::from_millis(700)).await;
        let committed = Instant::now();
        world.commit("orders");
        swept += 1;
        world.delivered(swept).await;
        let within = world.limits.poll_interval + FULL_SCAN_WAIT_MAX + Duration::from_millis(50);
        assert!(committed.elapsed() <= within, "the sweep {swept} took {:?}", committed.elapsed());
        assert_eq!(relay.status().store, StoreStatus::Up);
    }
    let full_scans = world.store.calls(Call::FullScan);
    let most = 2 + 600 / (3 * u64::from(FULL_SCAN_PAUSE_FACTOR));
    assert!((3..=most).contains(&full_scans), "{full_scans} full scans in ten minutes");
    assert!(world.store.calls(Call::Poll) > 500, "the poller goes on during the full scans");
}

/// A row committed behind the watermark is found by the next full scan, after its pause, and is sent at once.
#[tokio::test(start_paused = true)]
async fn a_late_commit_is_found_by_the_next_full_scan() {
    let world = slow_world(SECOND);
    let _relay = world.start().await;
    let late = world.store.insert_uncommitted(envelope("orders"), InsertOptions::default());
    sleep(SECOND * 30).await;
    let began = Instant::now();
    late.commit();
    world.drained().await;
    let most = SECOND * (FULL_SCAN_PAUSE_FACTOR + 3);
    assert!(began.elapsed() > SECOND * 5 && began.elapsed() <= most, "{:?}", began.elapsed());
}

/// The time-out says nothing about the database, which other polls check. The next scan goes back less far.
#[tokio::test(start_paused = true)]
async fn a_full_scan_that_times_out_is_no_outage() {
    let world = World::new();
    let timed_out = || Fault::Refused(StoreError::TimedOut { after: STATEMENT_TIMEOUT });
    (0..1_000).for_each(|_| world.store.inject(Call::FullScan, timed_out()));
    let late = world.store.insert_uncommitted(envelope("orders"), InsertOptions::default());
    let forgotten = world.store.insert_uncommitted(envelope("invoices"), InsertOptions::default());
    let relay = world.start().await;
    for swept in 1..=60 {
        sleep(SECOND).await;
        world.commit("orders");
        world.delivered(swept).await;
        assert_eq!(relay.status().store, StoreStatus::Up);
    }
    late.commit();
    let began = Instant::now();
    world.delivered(61).await;
    assert!(began.elapsed() < SECOND * 3, "an hour back is still scanned: {:?}", began.elapsed());
    sleep(FULL_SCAN_DEPTH).await;
    let tries = world.store.calls(Call::FullScan);
    let most = 2 + FULL_SCAN_DEPTH.as_secs() / FULL_SCAN_RETRY_INTERVAL.as_secs();
    assert!((2..=most).contains(&tries), "{tries} full scans in an hour");
    forgotten.commit();
    sleep(SECOND * 10).await;
    assert_eq!(world.store.live_rows().len(), 1, "an older row waits for a full scan that completes");
}

/// The watermark stays: without it, the next claim would walk over everything and time out like the first.
#[tokio::test(start_paused = true)]
async fn claims_that_time_out_make_no_later_one_begin_at_the_beginning() {
    let world = World::new();
    let relay = world.start().await;
    let topic = relay.engines.topics().next().unwrap();
    world.until("there is a watermark", || topic.watermark().is_some()).await;
    for _ in 0..3 {
        sleep(SECOND * 5).await;
        let before = topic.watermark();
        world.store.inject(Call::Claim, Fault::Refused(StoreError::TimedOut { after: STATEMENT_TIMEOUT }));
        world.commit("orders");
        world.drained().await;
        assert!(before.is_some() && topic.watermark() >= before, "{:?} after {before:?}", topic.watermark());
    }
}
