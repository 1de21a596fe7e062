use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::World;
use crate::limits::{BLOCKING_CALLS_MAX, Limits, SHUTDOWN_GRACE_MAX, STALENESS};
use crate::naming::TableNames;
use crate::relay::api::blocking::{Query, Request};
use crate::relay::{BacklogError, FlushOutcome, RelayBuilder, RelayPanicked, RelayState, StartError, TransportStatus};
use crate::store::{Call, Fault};

#[tokio::test(start_paused = true)]
async fn shutdown_drains_the_messages_that_were_handed_over() {
    let world = World::new();
    world.broker.set_latency(Duration::from_millis(100));
    let relay = world.start().await;
    for _ in 0..100 {
        world.commit_and_hand_over("orders");
    }
    let report = relay.shutdown(Duration::from_secs(10)).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(world.broker.delivered().len(), 100);
    assert!(world.store.live_rows().is_empty());
    assert!(world.link.now().is_none());
}

/// No instant is that far away.
#[tokio::test(start_paused = true)]
async fn shutdown_takes_any_grace_and_waits_for_a_day_at_most() {
    let world = World::new();
    assert!(world.start().await.shutdown(Duration::MAX).await.is_clean());
    world.broker.hold();
    let relay = world.start().await;
    world.commit_and_hand_over("orders");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    // Delivered, and never settled.
    world.store.set_down(true);
    world.broker.release();
    let began = tokio::time::Instant::now();
    assert_eq!(relay.shutdown(Duration::MAX).await.in_flight, 1);
    assert!(began.elapsed() >= SHUTDOWN_GRACE_MAX, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_in_an_outage_ends_in_time_and_reports_the_rest() {
    let world = World::new();
    world.broker.hold();
    let relay = world.start().await;
    for _ in 0..3 {
        world.commit_and_hand_over("orders");
    }
    world.until("they are in flight", || world.broker.in_flight() == 3).await;
    let report = relay.shutdown(Duration::from_secs(5)).await;
    assert_eq!(report.in_flight, 3);
    assert!(!report.is_clean());
    world.broker.release();
    assert_eq!(world.store.live_rows().len(), 3, "the rows stay for a sweeper");
    let _next = world.start().await;
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_relay_of_the_same_outbox_is_refused() {
    let world = World::new();
    let relay = world.start().await;
    assert!(matches!(world.relay().start().await, Err(StartError::AlreadyRunning)));
    drop(relay);
    drop(world.start().await);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_time_out_not_below_the_lease_is_refused() {
    let world = World::new();
    world.broker.set_delivery_timeout(Duration::from_millis(29_500));
    let error = world.relay().start().await.unwrap_err();
    assert!(matches!(error, StartError::DeliveryTimeout { .. }));
    assert!(error.to_string().contains("lease_duration"), "it names the remedy: {error}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_refused_by_name() {
    let world = World::new();
    let limits = Limits { settle_workers: 0, ..Limits::default() };
    let error = world.relay().limits(limits).start().await.unwrap_err();
    assert!(error.to_string().contains("settle_workers"), "{error}");
    let no_store = RelayBuilder::new(Vec::new(), TableNames::default(), Arc::default());
    assert!(matches!(no_store.start().await, Err(StartError::NoStore)));
}

#[tokio::test(start_paused = true)]
async fn limits_that_do_not_fit_together_are_refused_with_a_reason() {
    let usual = Limits::default;
    let second = Duration::from_secs(1);
    let cases = [
        (
            Limits { claim_window_duration: 3 * second, ..usual() },
            "claim_lease_duration is 2s",
            "send the same messages",
        ),
        (
            Limits { lane_lease_duration: second / 2, ..usual() },
            "lane_lease_duration is 500ms",
            "owned for long enough",
        ),
        (
            Limits { extend_interval: second, ..usual() },
            "extend_interval is 1s",
            "of the topic \"orders\", which is 3s",
        ),
        (
            Limits { lease_margin_duration: 3 * second, ..usual() },
            "extend_interval is 250ms",
            "ends before the relay checks",
        ),
    ];
    for (limits, names, says) in cases {
        let error = World::new().relay().limits(limits).start().await.unwrap_err().to_string();
        assert!(error.contains(names) && error.contains(says), "{error}");
    }
    let most =
        Limits { claim_window_duration: usual().claim_lease_duration / 2, extend_interval: second * 3 / 4, ..usual() };
    assert!(World::new().relay().limits(most).start().await.is_ok());
}

/// The relay dies between COMMIT and settle; the next one finds what it left.
#[tokio::test(start_paused = true)]
async fn a_dropped_relay_leaves_its_rows_to_the_next() {
    let world = World::new();
    world.broker.hold();
    let relay = world.start().await;
    let keys: Vec<_> = (0..10).map(|_| world.commit_and_hand_over("orders").message_id).collect();
    world.until("they are in flight", || world.broker.in_flight() == 10).await;
    drop(relay);
    world.broker.clear_responses();
    world.broker.release();
    world.commit_leased("orders", STALENESS);
    let _next = world.start().await;
    world.drained().await;
    let delivered = world.broker.delivered();
    for key in keys {
        assert!(delivered.iter().any(|envelope| envelope.message_id == key));
    }
}

#[test]
fn a_blocking_relay_needs_no_runtime() {
    let world = World::new();
    let relay = world.relay().start_blocking().unwrap();
    let key = world.commit_and_hand_over("orders");
    let delivered = world.broker.wait_for_delivered_blocking(1, Duration::from_secs(10)).unwrap();
    assert_eq!(delivered[0].message_id, key.message_id);
    assert!(relay.flush(Duration::from_secs(10)).unwrap().is_settled());
    assert_eq!(relay.status().unwrap().in_flight, 0);
    assert_eq!(relay.backlog().unwrap().live(), 0);
    let handle = relay.handle();
    assert!(handle.health().ready);
    let report = relay.shutdown(Duration::from_secs(10)).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(handle.status().state, RelayState::Ended);
}

#[test]
fn a_blocking_relay_responds_while_a_flush_waits() {
    let world = World::new();
    world.broker.hold();
    let relay = world.relay().start_blocking().unwrap();
    world.commit_and_hand_over("orders");
    let (response, flushed) = mpsc::channel();
    let flush = Query::Flush(Duration::from_secs(60), response);
    relay.requests.blocking_send(Request::Query(flush)).unwrap();
    relay.status().unwrap();
    assert_eq!(relay.backlog().unwrap().live(), 1);
    assert_eq!(flushed.try_recv(), Err(mpsc::TryRecvError::Empty), "the row is not settled");
    world.broker.release();
    assert_eq!(flushed.recv(), Ok(FlushOutcome::Settled));
}

/// Half of the calls are being answered, and half wait for that.
#[test]
fn a_blocking_relay_takes_a_bounded_number_of_calls() {
    let world = World::new();
    world.broker.hold();
    let relay = world.relay().start_blocking().unwrap();
    world.commit_and_hand_over("orders");
    let (response, flushed) = mpsc::channel();
    let flush = || Request::Query(Query::Flush(Duration::from_secs(60), response.clone()));
    let calls = 2 * BLOCKING_CALLS_MAX;
    (0..calls).for_each(|_| relay.requests.blocking_send(flush()).unwrap());
    assert!(relay.requests.try_send(flush()).is_err(), "the queue of calls is full");
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| relay.status().unwrap());
        world.broker.release();
        assert_eq!(waits.join().unwrap().transport_named("default").unwrap().status, TransportStatus::Up);
    });
    assert_eq!(flushed.iter().take(calls).filter(|flushed| flushed.is_settled()).count(), calls);
}

#[test]
fn a_blocking_relay_that_panicked_returns_an_error_to_every_call() {
    let mut world = World::new();
    world.limits.backlog_interval = Duration::ZERO;
    let relay = world.relay().start_blocking().unwrap();
    world.store.inject(Call::Backlog, Fault::Panics);
    assert!(matches!(relay.backlog(), Err(BacklogError::Panicked(_))));
    assert!(matches!(relay.backlog(), Err(BacklogError::Panicked(_))), "and again");
    assert_eq!(relay.status(), Err(RelayPanicked::new()));
    assert_eq!(relay.flush(Duration::from_secs(10)), Err(RelayPanicked::new()));
    assert_eq!(relay.shutdown(Duration::from_secs(10)), Err(RelayPanicked::new()));

    world.store.inject(Call::Check, Fault::Panics);
    assert!(matches!(world.relay().start_blocking(), Err(StartError::Panicked(_))));
    drop(world.relay().start_blocking().unwrap());
}
