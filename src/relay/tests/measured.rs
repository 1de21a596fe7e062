//! The metrics of scenarios whose figures are known.

use std::collections::HashMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::{World, lanes};
use crate::limits::LANES;
use crate::metrics;
use crate::relay::Relays;
use crate::store::RowKey;
use crate::transport::{FailureClass, ScriptedResponse};

type Figures = HashMap<String, f64>;

/// The sum of each metric, and of each metric per label as `name/value`.
fn figures(recorder: &Snapshotter) -> Figures {
    let mut figures = Figures::new();
    for (key, _, _, value) in recorder.snapshot().into_vec() {
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(level) => level.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        *figures.entry(key.key().name().to_owned()).or_default() += value;
        for label in key.key().labels() {
            *figures.entry(format!("{}/{}", key.key().name(), label.value())).or_default() += value;
        }
    }
    figures
}

/// Runs a scenario on virtual time and returns its recorder.
pub(super) fn recorded(scenario: impl AsyncFnOnce()) -> Snapshotter {
    recorded_on(true, scenario)
}

/// Virtual time stands still while a thread blocks.
pub(super) fn recorded_in_real_time(scenario: impl AsyncFnOnce()) -> Snapshotter {
    recorded_on(false, scenario)
}

fn recorded_on(paused: bool, scenario: impl AsyncFnOnce()) -> Snapshotter {
    let recorder = DebuggingRecorder::new();
    ::metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap();
        runtime.block_on(scenario());
    });
    recorder.snapshotter()
}

/// Runs a scenario on virtual time and returns its metrics.
fn measured(scenario: impl AsyncFnOnce()) -> Figures {
    figures(&recorded(scenario))
}

#[test]
fn every_figure_of_a_known_scenario_is_as_it_was() {
    let figures = measured(async || {
        let world = World::new();
        world.commit("invoices");
        let poisoned = world.commit("orders");
        assert!(world.store.poison(poisoned));
        let _relay = world.start().await;
        world.drained().await;
        for _ in 0..3 {
            world.commit_and_hand_over("orders");
        }
        world.drained().await;
        world.hand_over(RowKey { id: 99, message_id: crate::message::MessageId::new() }, "orders");
        world.broker.respond_next(3, ScriptedResponse::Fail(FailureClass::Record));
        world.commit_and_hand_over("orders");
        world.drained().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    });
    let is = |name: String, value: f64| assert_eq!(figures.get(&name).copied().unwrap_or(0.0), value, "{name}");
    is(format!("{}/confirmed", metrics::SENT), 4.0);
    is(format!("{}/swept", metrics::SENT), 3.0);
    is(metrics::DELIVERED.to_owned(), 4.0);
    is(format!("{}/confirmed", metrics::DELIVERED), 3.0);
    is(format!("{}/swept", metrics::DELIVERED), 1.0);
    is(format!("{}/record", metrics::FAILED), 3.0);
    is(format!("{}/attempts", metrics::DEAD_LETTERED), 1.0);
    is(format!("{}/poisoned", metrics::DEAD_LETTERED), 1.0);
    is(metrics::RETRIED.to_owned(), 2.0);
    is(metrics::CONFIRM_MISSED.to_owned(), 1.0);
    is(metrics::COMMIT_TO_ACK.to_owned(), 3.0);
    is(metrics::IN_FLIGHT.to_owned(), 0.0);
    is(metrics::BREAKER_OPEN.to_owned(), 0.0);
}

/// Otherwise the relay that set a gauge last would hide the other.
#[test]
fn gauges_of_several_relays_have_their_names() {
    let figures = measured(async || {
        let (north, south) = (World::new(), World::new());
        let relays = Relays::builder().relay("north", north.relay()).relay("south", south.relay());
        let relays = relays.start().await.unwrap();
        north.commit_leased("orders", Duration::from_secs(3_600));
        for (_, relay) in relays.iter() {
            relay.backlog().await.unwrap();
        }
    });
    for (relay, rows) in [("north", 1.0), ("south", 0.0)] {
        assert_eq!(figures.get(&format!("{}/{relay}", metrics::LIVE_ROWS)), Some(&rows));
        for gauge in [metrics::QUEUE_DEPTH, metrics::IN_FLIGHT, metrics::BREAKER_OPEN, metrics::OLDEST_DUE] {
            assert!(figures.contains_key(&format!("{gauge}/{relay}")), "{gauge} of {relay}");
        }
    }
}

/// The failed copies went through the hook, the one that got through did not.
#[test]
fn a_message_counts_as_delivered_by_the_path_of_the_copy_that_got_through() {
    let figures = measured(async || {
        let world = World::new();
        let _relay = world.start().await;
        world.broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Temporary));
        for _ in 0..3 {
            world.commit_and_hand_over("orders");
        }
        world.drained().await;
    });
    let is = |metric: &str, path: &str, value: f64| {
        assert_eq!(figures.get(&format!("{metric}/{path}")).copied().unwrap_or(0.0), value, "{metric} {path}");
    };
    is(metrics::SENT, "confirmed", 3.0);
    is(metrics::SENT, "swept", 2.0);
    is(metrics::DELIVERED, "confirmed", 1.0);
    is(metrics::DELIVERED, "swept", 2.0);
}

#[test]
fn an_ordered_message_is_timed_where_the_hook_named_it() {
    let figures = measured(async || {
        let world = lanes::world();
        let relay = world.start().await;
        world.until("every lane is owned", || lanes::owned(&relay) == usize::from(LANES)).await;
        world.commit_keyed("found");
        for (key, with_id) in [("named", true), ("unnamed", false)] {
            let row = world.commit_keyed(key);
            world.hand_over_keyed(row, key, with_id);
        }
        world.drained().await;
    });
    let delivered = figures.get(&format!("{}/lane", metrics::DELIVERED)).copied();
    assert_eq!((delivered, figures[metrics::COMMIT_TO_ACK]), (Some(3.0), 1.0));
}

#[test]
fn a_transport_that_panics_ends_no_task_and_is_counted() {
    let figures = measured(async || {
        let world = World::new();
        let mut panics = [true, true].into_iter();
        world.broker.respond_when(ScriptedResponse::Deliver, move |_| {
            assert!(panics.next().is_none(), "a bug in third-party code");
            false
        });
        world.commit("orders");
        let relay = world.start().await;
        world.commit_and_hand_over("orders");
        world.delivered(2).await;
        world.commit_and_hand_over("orders");
        world.delivered(3).await;
        world.drained().await;
        let report = relay.shutdown(Duration::from_secs(10)).await;
        assert!(report.is_clean(), "{report:?}");
    });
    assert_eq!(figures[&format!("{}/transport", metrics::CALL_PANICKED)], 2.0, "{figures:?}");
    assert!(!figures.contains_key(metrics::TASK_PANICKED), "{figures:?}");
}

#[test]
fn a_row_that_is_stuck_in_its_lane_is_overdue_and_one_behind_a_failure_is_not() {
    let figures = measured(async || {
        let world = lanes::world();
        let is_held = |sent: &crate::message::Envelope| sent.key.as_deref() == Some("held");
        world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), is_held);
        world.commit_keyed("held");
        world.commit_keyed("held");
        let relay = world.start().await;
        world.until("the key is held", || world.store.live_rows()[0].failures > 0).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        let overdue_by = async || relay.backlog().await.unwrap().overdue_by();
        assert!(overdue_by().await < Duration::from_secs(3), "{:?}", overdue_by().await);
        world.broker.hold();
        world.commit_keyed("stuck");
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(overdue_by().await > Duration::from_secs(18), "{:?}", overdue_by().await);
    });
    let seconds = figures[metrics::OLDEST_DUE];
    assert!((18.0..=21.0).contains(&seconds), "{seconds}");
}

/// Two transactions without an order between them; the second is seen and sent first.
#[test]
fn late_rows_of_an_ordered_topic_are_counted() {
    let figures = measured(async || {
        let world = lanes::world();
        let late = world.begin_keyed("a");
        let other = world.begin_keyed("b");
        let relay = world.start().await;
        world.commit_keyed("a");
        world.delivered(1).await;
        late.commit();
        other.commit();
        world.delivered(3).await;
        world.drained().await;
        relay.shutdown(Duration::from_secs(5)).await;
    });
    assert_eq!(figures[metrics::LANE_LATE], 1.0, "the other late row has no later row of its key that was sent");
}
