//! How often the engine checks for things that nobody reports, and how late it is at most.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::{World, envelope};
use crate::limits::{PREPARE_TIMEOUT, SETTLE_RETRY_INTERVAL};
use crate::message::Envelope;
use crate::store::{Call, InsertOptions};
use crate::topic::Topic;
use crate::transport::{MemoryTransport, OutcomeSender, Transport, TransportError};

const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_row_of_another_process_is_found_within_a_poll() {
    for poll_interval in [Duration::from_secs(1), Duration::from_secs(7)] {
        let mut world = World::new();
        world.limits.poll_interval = poll_interval;
        let _relay = world.start().await;
        for found in 1..=5 {
            sleep(poll_interval.mul_f64(1.3)).await;
            let began = Instant::now();
            world.commit("orders");
            world.delivered(found).await;
            assert!(began.elapsed() <= poll_interval + MILLISECOND * 50, "{:?}", began.elapsed());
        }
    }
}

/// Rows arrive all the time, so claims begin behind what is settled.
#[tokio::test(start_paused = true)]
async fn a_row_that_commits_late_is_found_by_the_next_poll_however_late_it_is() {
    let limits = World::new().limits;
    let (slack, poll) = (limits.watermark_slack_duration, limits.poll_interval * 2);
    for open_for in [slack - Duration::from_secs(1), slack * 3] {
        let world = World::new();
        let _relay = world.start().await;
        let late = world.store.insert_uncommitted(envelope("orders"), InsertOptions::default());
        let end = Instant::now() + open_for;
        while Instant::now() < end {
            world.commit("orders");
            sleep(Duration::from_millis(500)).await;
        }
        let began = Instant::now();
        late.commit();
        world.drained().await;
        let elapsed = began.elapsed();
        assert!(elapsed <= poll, "open for {open_for:?}: {elapsed:?}");
    }
}

/// A full batch goes at once.
#[tokio::test(start_paused = true)]
async fn a_small_settle_batch_lingers_no_longer_than_it_may() {
    for (settle_rows_max, waits) in [(1, false), (2, true)] {
        let mut world = World::new();
        world.limits.settle_rows_max = settle_rows_max;
        let linger = world.limits.settle_linger_duration;
        let _relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.delivered(1).await;
        let delivered_at = Instant::now();
        world.drained().await;
        let waited = delivered_at.elapsed();
        let expected = if waits { linger } else { Duration::ZERO };
        assert!(waited >= expected && waited <= expected + MILLISECOND * 5, "{waited:?}");
    }
}

/// The database refuses, so that each check for leases near their end is a call.
#[tokio::test(start_paused = true)]
async fn leases_are_checked_as_often_as_configured() {
    for extend_interval in [Duration::from_millis(250), Duration::from_millis(100)] {
        let mut world = World::new();
        world.limits.extend_interval = extend_interval;
        world.broker.hold();
        let _relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.until("its lease is extended", || world.store.calls(Call::Extend) > 0).await;
        world.store.set_down(true);
        // Into the last third of it.
        sleep(world.limits.lease_duration * 3 / 4).await;
        let before = world.store.calls(Call::Extend);
        sleep(Duration::from_secs(5)).await;
        let checks = u128::from(world.store.calls(Call::Extend) - before);
        let expected = 5_000 / extend_interval.as_millis();
        assert!(checks > 0 && checks.abs_diff(expected) <= 1, "{checks} checks in 5 s");
        world.store.set_down(false);
        world.broker.release();
        world.drained().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivered_row_that_stays_locked_is_tried_again_now_and_then() {
    let world = World::new();
    world.broker.hold();
    let _relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    let locked = world.store.lock(key).unwrap();
    world.broker.release();
    world.until("it is left for later, and looked for", || world.store.calls(Call::Remaining) > 0).await;
    let before = world.store.calls(Call::Remaining);
    sleep(SETTLE_RETRY_INTERVAL * 10).await;
    let tries = world.store.calls(Call::Remaining) - before;
    assert!((9..=10).contains(&tries), "{tries} tries");
    drop(locked);
    world.drained().await;
    assert_eq!(world.broker.sends(), 1);
}

/// Notes when the broker is probed.
#[derive(Debug)]
struct Probed {
    broker: MemoryTransport,
    at: Arc<Mutex<Vec<Instant>>>,
    /// How many of the first probes never return.
    silent: usize,
}

#[async_trait]
impl Transport for Probed {
    fn delivery_timeout(&self) -> Duration {
        self.broker.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.broker.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.broker.send(envelope, sender);
    }

    async fn probe(&self) -> Result<(), TransportError> {
        let count = {
            let mut at = self.at.lock().unwrap();
            at.push(Instant::now());
            at.len()
        };
        if count <= self.silent {
            pending::<()>().await;
        }
        self.broker.probe().await
    }

    async fn flush(&self, within: Duration) -> usize {
        self.broker.flush(within).await
    }
}

#[tokio::test(start_paused = true)]
async fn probes_of_a_broker_that_is_down_follow_each_other_ever_slower_up_to_a_bound() {
    let world = World::new();
    let at = Arc::<Mutex<Vec<Instant>>>::default();
    world.broker.go_down();
    let probed = Probed { broker: world.broker.clone(), at: Arc::clone(&at), silent: 0 };
    let began = Instant::now();
    let _relay = world.relay().transport(probed).start().await.unwrap();
    sleep(Duration::from_secs(20)).await;
    let at = [vec![began], at.lock().unwrap().clone()].concat();
    let pauses: Vec<u128> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    let (least, most) = (world.limits.probe_interval_min, world.limits.probe_interval_max);
    assert!(pauses.len() > 15, "{pauses:?}");
    for (pause, expected) in pauses.iter().zip((0_u32..).map(|doubled| (least * (1 << doubled.min(9))).min(most))) {
        // Timers count in whole milliseconds.
        assert!(pause.abs_diff(expected.as_millis()) <= 2, "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_never_returns_is_repeated() {
    let world = World::new();
    let at = Arc::<Mutex<Vec<Instant>>>::default();
    world.broker.go_down();
    let probed = Probed { broker: world.broker.clone(), at: Arc::clone(&at), silent: 2 };
    let _relay = world.relay().transport(probed).start().await.unwrap();
    world.commit_and_hand_over("orders");
    world.until("it is probed", || !at.lock().unwrap().is_empty()).await;
    world.broker.go_up();
    sleep(PREPARE_TIMEOUT * 3).await;
    world.drained().await;
    assert_eq!(world.broker.delivered().len(), 1);
}
