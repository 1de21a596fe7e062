use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::World;
use crate::limits::Limits;
use crate::metrics;
use crate::relay::{Backlog, RelayBuilder};
use crate::store::{Call, Fault, StoreError};
use crate::topic::Topic;
use crate::transport::{FailureClass, ScriptedResponse};

fn counts(backlog: &Backlog) -> Vec<(&str, usize, usize, usize)> {
    backlog.topics.iter().map(|of| (&*of.topic, of.live, of.due, of.dead)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_backlog_has_every_topic_of_the_relay_and_of_the_tables() {
    let world = World::new();
    let relay = world.start().await;
    assert_eq!(counts(&relay.backlog().await.unwrap()), [("invoices", 0, 0, 0), ("orders", 0, 0, 0)]);

    world
        .broker
        .respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), |envelope| &*envelope.topic == "orders");
    world.commit("orders");
    world.drained().await;
    world.broker.hold();
    world.commit_and_hand_over("invoices");
    world.until("it is in flight", || world.broker.in_flight() == 1).await;
    world.commit("nobody-s");
    tokio::time::sleep(Duration::from_secs(7)).await;
    let backlog = relay.backlog().await.unwrap();
    assert_eq!(counts(&backlog), [("invoices", 1, 0, 0), ("nobody-s", 1, 1, 0), ("orders", 0, 0, 1)]);
    assert_eq!((backlog.live(), backlog.due(), backlog.dead_letters()), (2, 1, 1));
    assert!(backlog.overdue_by() >= Duration::from_secs(7), "{backlog:?}");
    assert_eq!(backlog.topic("no such topic"), None);
}

#[tokio::test(start_paused = true)]
async fn counting_the_backlog_stops_at_its_limit() {
    let mut world = World::new();
    world.limits = Limits { backlog_count_max: 3, ..Limits::default() };
    let relay = world.start().await;
    world.broker.go_down();
    for _ in 0..5 {
        world.commit("nobody-s");
    }
    let backlog = relay.backlog().await.unwrap();
    assert_eq!((backlog.count_max, backlog.live(), backlog.due()), (3, 3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_cannot_be_counted_is_an_error_and_no_outage() {
    let mut world = World::new();
    world.limits.backlog_interval = Duration::ZERO;
    let relay = world.start().await;
    let before = relay.status();
    world.store.inject(Call::Backlog, Fault::Refused(StoreError::TimedOut { after: Duration::from_secs(5) }));
    assert!(relay.backlog().await.unwrap_err().is_retriable());
    assert_eq!(relay.status(), before, "a slow count does not make the store down");
}

/// How often a relay counts by itself in an hour.
async fn counts_of_an_hour(backlog_interval: Duration, faults: impl Fn() -> Option<Fault>) -> u64 {
    let mut world = World::new();
    world.limits.backlog_interval = backlog_interval;
    (0..1_000).filter_map(|_| faults()).for_each(|fault| world.store.inject(Call::Backlog, fault));
    let relay = world.start().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(relay.shutdown(Duration::from_secs(5)).await.is_clean());
    world.store.calls(Call::Backlog)
}

#[tokio::test(start_paused = true)]
async fn a_relay_counts_at_its_start_and_then_at_each_interval() {
    let interval = Limits::default().backlog_interval;
    assert_eq!(interval, Duration::from_secs(30));
    let counts = counts_of_an_hour(interval, || None).await;
    assert!((120..=121).contains(&counts), "{counts}");
    assert_eq!(counts_of_an_hour(Duration::ZERO, || None).await, 0, "it is off");
}

#[tokio::test(start_paused = true)]
async fn slow_counts_are_rare_and_failed_ones_are_no_outage() {
    let interval = Limits::default().backlog_interval;
    let slow = counts_of_an_hour(interval, || Some(Fault::Slow(Duration::from_secs(5)))).await;
    assert!((13..=16).contains(&slow), "{slow}: 2 % of the time");
    let world = World::new();
    for _ in 0..100 {
        world.store.inject(Call::Backlog, Fault::Refused(StoreError::TimedOut { after: Duration::from_secs(5) }));
    }
    let (log, _logging) = super::logged::Log::begin();
    let relay = world.start().await;
    world.until("it has counted in vain", || world.store.calls(Call::Backlog) >= 3).await;
    let health = relay.health();
    assert!(health.is_ready_strict(), "{health:?}");
    assert!((1..=2).contains(&log.times("backlog could not be counted")), "once a minute");
}

/// A scrape needs no call of the application's.
#[test]
fn the_gauges_are_set_without_a_call_and_say_when() {
    let recorder = super::measured::recorded(async || {
        let mut world = World::new();
        world.topics = vec![Topic::new("orders")];
        let _relay = world.start().await;
        world.commit("nobody-s");
        tokio::time::sleep(Limits::default().backlog_interval * 2).await;
    });
    let mut gauges = BTreeMap::new();
    for (key, _, _, value) in recorder.snapshot().into_vec() {
        if let DebugValue::Gauge(level) = value {
            *gauges.entry(key.key().name().to_owned()).or_insert(0.0) += level.into_inner();
        }
    }
    assert_eq!(gauges[metrics::LIVE_ROWS], 1.0, "{gauges:?}");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!((now - 60.0..=now).contains(&gauges[metrics::BACKLOG_COUNTED]), "{gauges:?}");
}

#[test]
fn the_gauges_of_a_topic_go_back_to_zero_when_it_has_no_rows_any_more() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let gauges = || -> BTreeMap<String, f64> {
        let gauges = snapshotter.snapshot().into_vec().into_iter().filter_map(|(key, _, _, value)| {
            let topic = key.key().labels().find(|label| label.key() == "topic")?.value();
            let DebugValue::Gauge(level) = value else { return None };
            Some((format!("{} {topic}", key.key().name()), level.into_inner()))
        });
        gauges.collect()
    };
    ::metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            let relay = world.start().await;
            world.commit("nobody-s");
            relay.backlog().await.unwrap();
            let values = gauges();
            assert_eq!(values[&format!("{} nobody-s", metrics::LIVE_ROWS)], 1.0);
            assert_eq!(values[&format!("{} nobody-s", metrics::DUE_ROWS)], 1.0);
            assert_eq!(values[&format!("{} orders", metrics::DEAD_LETTERS)], 0.0);

            let names = crate::naming::TableNames::default();
            let other = RelayBuilder::new(vec![Topic::new("nobody-s")], names, std::sync::Arc::default());
            // It has the topic, so its gauges would be series of their own.
            let other = other.limits(Limits::default().backlog_interval(Duration::ZERO));
            let _other = other.store(world.store.clone()).transport(world.broker.clone()).start().await.unwrap();
            world.drained().await;
            relay.backlog().await.unwrap();
            assert_eq!(gauges()[&format!("{} nobody-s", metrics::LIVE_ROWS)], 0.0);
        });
    });
}
