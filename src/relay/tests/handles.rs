//! A relay's handles, status and logs, during its life and after its end.

use std::time::Duration;

use super::logged::Log;
use super::{DEADLINE, World};
use crate::limits::{RELAY_STALLED_AFTER, WARNING_REPEAT_INTERVAL};
use crate::relay::{BacklogError, FlushOutcome, RelayState, StartError, StoreStatus, TransportStatus};
use crate::store::{Call, Fault, StoreError};
use crate::transport::{FailureClass, ScriptedResponse};

const GRACE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_status_counts_what_was_delivered_and_what_has_failed() {
    let world = World::new();
    world.broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Record));
    let relay = world.start().await;
    world.commit_and_hand_over("orders");
    world.commit_and_hand_over("invoices");
    world.drained().await;
    let status = relay.status();
    assert_eq!((status.delivered, status.failed), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_handle_reports_the_status_of_the_relay_and_its_end() {
    let world = World::new();
    let relay = world.start().await;
    let (handle, other) = (relay.handle(), relay.handle().clone());
    assert_eq!(handle.status(), relay.status());
    assert_eq!(handle.status().state, RelayState::Running);
    let health = handle.health();
    assert!(health.live && health.ready && health.problems.is_empty(), "{health:?}");
    world.commit_and_hand_over("orders");
    assert_eq!(other.flush(GRACE).await, FlushOutcome::Settled);
    assert_eq!(other.backlog().await.unwrap().live(), 0);
    world.broker.hold();
    world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    let node = relay.status().node;
    let (report, draining) = tokio::join!(relay.shutdown(GRACE), async {
        world.until("it drains", || handle.status().state != RelayState::Running).await;
        let draining = (handle.status().state, handle.health());
        world.broker.release();
        draining
    });
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(draining.0, RelayState::ShuttingDown);
    assert!(draining.1.live && !draining.1.ready, "{:?}", draining.1);
    assert_eq!((handle.status().state, handle.status().node), (RelayState::Ended, node));
    assert!(!handle.health().live && !handle.health().ready);
    assert_eq!(handle.flush(GRACE).await, FlushOutcome::NoRelay);
    assert!(matches!(handle.backlog().await, Err(BacklogError::Ended)));
}

#[tokio::test(start_paused = true)]
async fn a_flush_reports_settled_timed_out_or_no_relay() {
    let world = World::new();
    assert_eq!(world.link.flush(GRACE).await, FlushOutcome::NoRelay);
    let relay = world.start().await;
    world.broker.hold();
    world.commit_and_hand_over("orders");
    assert_eq!(relay.flush(GRACE).await, FlushOutcome::TimedOut);
    world.broker.release();
    assert_eq!(relay.flush(GRACE).await, FlushOutcome::Settled);
    assert_eq!(world.link.flush(GRACE).await, FlushOutcome::Settled);
    assert!(relay.shutdown(GRACE).await.is_clean());
    assert_eq!(world.link.flush(GRACE).await, FlushOutcome::NoRelay);
}

#[tokio::test(start_paused = true)]
async fn a_relay_runs_until_it_is_to_end() {
    let world = World::new();
    let relay = world.start().await;
    let (handle, began) = (relay.handle(), tokio::time::Instant::now());
    let stop = async {
        tokio::time::sleep(DEADLINE).await;
        assert_eq!(handle.status().state, RelayState::Running);
        world.commit_and_hand_over("orders");
    };
    assert!(relay.run_until(stop).await.is_clean());
    assert!(began.elapsed() >= DEADLINE && world.store.live_rows().is_empty());
    assert_eq!(handle.status().state, RelayState::Ended);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_relay_warns_once_and_one_that_was_shut_down_does_not() {
    let (log, _logging) = Log::begin();
    let dropped = || log.times("dropped without shutdown");
    let world = World::new();
    let relay = world.start().await;
    assert!(relay.shutdown(GRACE).await.is_clean());
    assert_eq!(dropped(), 0);
    let relay = world.start().await;
    let handle = relay.handle();
    drop(relay);
    assert_eq!((dropped(), handle.status().state), (1, RelayState::Ended));
    let relay = world.start().await;
    world.broker.hold();
    world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    tokio::time::timeout(GRACE / 2, relay.shutdown(GRACE)).await.expect_err("it waits for the broker");
    assert_eq!(dropped(), 2, "a cancelled shutdown counts as a drop");
}

/// A relay that was shut down is dropped after another one was started.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_relay_leaves_the_next_one_connected() {
    let world = World::new();
    world.broker.hold();
    let first = world.start().await;
    world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    let (_, second) = tokio::join!(first.shutdown(GRACE), async {
        world.until("the first is disconnected", || world.link.now().is_none()).await;
        world.start().await
    });
    assert!(world.link.now().is_some());
    world.broker.release();
    assert!(second.shutdown(GRACE).await.is_clean());
}

#[test]
fn a_relay_whose_runtime_has_ended_reports_it() {
    let world = World::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let relay = first.block_on(world.relay().start()).unwrap();
    let handle = relay.handle();
    assert_eq!(handle.status().state, RelayState::Running);
    drop(first);
    assert_eq!((relay.status().state, handle.status().state), (RelayState::RuntimeGone, RelayState::RuntimeGone));
    let health = handle.health();
    assert!(!health.live && health.problems[0].contains("runtime"), "{health:?}");
    assert_eq!(runtime().block_on(relay.flush(GRACE)), FlushOutcome::NoRelay);
    runtime().block_on(relay.shutdown(GRACE));
    assert_eq!(handle.status().state, RelayState::RuntimeGone);
}

/// The runtime still exists, but is not driven.
#[test]
fn a_relay_whose_tasks_are_not_polled_is_stalled() {
    #[derive(Debug, Clone, Default)]
    struct Hands(std::sync::Arc<std::sync::Mutex<Duration>>);
    impl crate::clock::Clock for Hands {
        fn now(&self) -> crate::clock::BootInstant {
            crate::clock::BootInstant::from_boot(Duration::from_secs(1_000) + *self.0.lock().unwrap())
        }
    }
    let (world, hands) = (World::new(), Hands::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let relay = runtime.block_on(world.relay().clock(hands.clone()).start()).unwrap();
    assert_eq!(relay.status().state, RelayState::Running);
    *hands.0.lock().unwrap() = RELAY_STALLED_AFTER;
    assert!(matches!(relay.status().state, RelayState::Stalled { since } if since >= RELAY_STALLED_AFTER));
    assert!(!relay.handle().health().live);
    runtime.block_on(async {
        world.until_really("it beats again", || relay.status().state == RelayState::Running).await;
        relay.shutdown(Duration::ZERO).await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_status_is_json_with_the_reasons_of_outages() {
    let world = World::new();
    world.broker.go_down_as(FailureClass::Connection);
    let relay = world.start().await;
    let status = relay.status();
    let TransportStatus::Down { error, .. } = &status.transport else { panic!("{status:?}") };
    assert!(error.contains("connection"), "{error}");
    world.store.set_down(true);
    world.until("the database is down", || relay.status().store != StoreStatus::Up).await;
    let health = relay.handle().health();
    assert!(health.live && health.ready && health.degraded && health.problems.len() == 2, "{health:?}");
    assert_eq!(health, relay.health());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let json = serde_json::to_value(relay.status()).unwrap();
    assert_eq!(json["state"], "running");
    assert_eq!(json["transport"]["down"]["class"], "connection");
    assert!(json["transport"]["down"]["seconds"].as_f64() >= Some(3.0), "{json}");
    assert!(json["store"]["down"]["error"].as_str().unwrap().contains("cannot be reached"), "{json}");
    assert_eq!(json["transports"][0]["name"], "default");
    assert_eq!(json["node"], relay.status().node.to_string());
    world.store.set_down(false);
    let json = serde_json::to_value(relay.backlog().await.unwrap()).unwrap();
    assert_eq!(json["topics"][0]["overdue_seconds"], 0.0, "{json}");
    assert_eq!(serde_json::to_value(relay.handle().health()).unwrap()["live"], true);
    let report = serde_json::to_value(relay.shutdown(GRACE).await).unwrap();
    assert_eq!(report["in_time"], true);
}

/// They are down for every process: to take one out of service, or to restart it, would mend nothing.
#[tokio::test(start_paused = true)]
async fn a_database_or_broker_that_is_down_makes_a_relay_degraded_and_never_unready() {
    let world = World::new();
    let relay = world.start().await;
    let states =
        || (relay.health().live, relay.health().ready, relay.health().degraded, relay.health().is_ready_strict());
    let (well, degraded) = ((true, true, false, true), (true, true, true, false));
    assert_eq!(states(), well);
    world.store.set_down(true);
    world.until("the database is down", || states() == degraded).await;
    assert!(relay.health().problems[0].contains("the database has been down"), "{:?}", relay.health());
    world.store.set_down(false);
    world.until("it is back", || states() == well).await;
    world.broker.go_down();
    world.commit("orders");
    world.until("the broker is down", || states() == degraded).await;
    world.broker.go_up();
    world.until("it is back", || states() == well).await;
    let handle = relay.handle();
    world.store.set_down(true);
    world.until("the database is down", || states() == degraded).await;
    relay.shutdown(GRACE).await;
    let ended = handle.health();
    assert!(!ended.live && !ended.ready && !ended.is_ready_strict(), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_starts_without_its_database_is_ready_and_degraded() {
    let world = World::new();
    world.store.set_down(true);
    let health = world.start().await.health();
    assert!(health.live && health.ready && health.degraded, "{health:?}");
    let json = serde_json::to_value(&health).unwrap();
    assert_eq!((&json["ready"], &json["degraded"]), (&true.into(), &true.into()), "{json}");
}

/// One line a minute, not one a second.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_database_is_logged_once_a_minute_and_its_end_once() {
    let (log, _logging) = Log::begin();
    let logged = || log.times("the outbox could not be polled");
    let world = World::new();
    let relay = world.start().await;
    world.store.set_down(true);
    world.until("it is logged", || logged() == 1).await;
    tokio::time::sleep(WARNING_REPEAT_INTERVAL * 10).await;
    assert!((10..=12).contains(&logged()), "{}", logged());
    world.store.set_down(false);
    world.until("its end is logged", || log.times("can be polled again") == 1).await;
    assert!(relay.shutdown(GRACE).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_is_an_error_at_start() {
    let world = World::new();
    let refused = || Fault::Refused(StoreError::Refused("no such user".into()));
    world.store.inject(Call::Check, refused());
    let error = world.relay().start().await.unwrap_err();
    assert!(matches!(error, StartError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("no such user") && error.to_string().contains("correct the user"), "{error}");
    // For a running relay it is an outage: passwords are changed, too.
    let relay = world.start().await;
    world.store.inject(Call::Poll, refused());
    world.until("it is an outage", || relay.status().store != StoreStatus::Up).await;
    world.until("it is over", || relay.status().store == StoreStatus::Up).await;
    assert!(relay.shutdown(GRACE).await.is_clean());
}
