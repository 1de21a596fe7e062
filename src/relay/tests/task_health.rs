//! Tasks that do not do their work although the runtime runs them.

use std::time::Duration;

use super::World;
use crate::limits::{POLLER_STUCK_AFTER, TASK_PANICS_MAX, TASK_RECOVERED_AFTER};
use crate::store::{Call, Fault};

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_again_and_again_is_not_live_until_it_has_run_for_a_minute() {
    let world = World::new();
    let relay = world.start().await;
    world.store.inject(Call::Poll, Fault::Panics);
    let polls = world.store.calls(Call::Poll);
    world.until("it was restarted", || world.store.calls(Call::Poll) > polls + 2).await;
    assert!(relay.health().live, "once is no reason");
    (0..TASK_PANICS_MAX * 2).for_each(|_| world.store.inject(Call::Poll, Fault::Panics));
    world.until("it fails", || !relay.health().live).await;
    let (status, health) = (relay.status(), relay.health());
    assert_eq!(status.failing_tasks, ["poller"]);
    assert!(!health.ready && health.problems[0].contains("\"poller\" panics"), "{health:?}");
    let failed_at = tokio::time::Instant::now();
    world.until("it has recovered", || relay.health().ready).await;
    assert!(failed_at.elapsed() >= TASK_RECOVERED_AFTER, "{:?}", failed_at.elapsed());
    assert!(relay.shutdown(Duration::from_secs(5)).await.is_clean());
}

/// The full scan is one poll, and may be slow; the other is the poller's own.
#[tokio::test(start_paused = true)]
async fn a_poller_that_is_stuck_is_not_live_until_it_goes_on() {
    let world = World::new();
    let relay = world.start().await;
    let stuck_for = POLLER_STUCK_AFTER + Duration::from_secs(30);
    (0..2).for_each(|_| world.store.inject(Call::Poll, Fault::Slow(stuck_for)));
    tokio::time::sleep(POLLER_STUCK_AFTER).await;
    assert!(relay.health().live, "{:?}", relay.health());
    world.until("it is stuck", || relay.status().failing_tasks == ["poller"]).await;
    assert!(!relay.health().live && !relay.health().ready);
    world.until("it goes on", || relay.health().live).await;
    assert!(relay.shutdown(Duration::from_secs(5)).await.is_clean());
}

/// The poller ends before the rest; a relay that drains for minutes is not to be killed for that.
#[tokio::test(start_paused = true)]
async fn a_relay_that_drains_has_no_stuck_poller() {
    let world = World::new();
    world.broker.hold();
    let relay = world.start().await;
    let handle = relay.handle();
    world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    let (report, ()) = tokio::join!(relay.shutdown(POLLER_STUCK_AFTER * 2), async {
        tokio::time::sleep(POLLER_STUCK_AFTER + world.limits.poll_interval * 2).await;
        assert!(handle.health().live && !handle.health().ready, "{:?}", handle.health());
        world.broker.release();
    });
    assert!(report.is_clean(), "{report:?}");
}
