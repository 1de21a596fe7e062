//! How long messages take, by the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::DebugValue;

use super::measured::recorded;
use super::{World, envelope, inline, lanes};
use crate::limits::{LANES, STALENESS};
use crate::metrics;
use crate::store::InsertOptions;
use crate::transport::{FailureClass, ScriptedResponse};

const HOUR: Duration = Duration::from_secs(3_600);

/// The seconds of a histogram, by its labels as `name=value`.
fn seconds(histogram: &str, scenario: impl AsyncFnOnce()) -> BTreeMap<String, Vec<f64>> {
    let mut found = BTreeMap::new();
    for (key, _, _, value) in recorded(scenario).snapshot().into_vec() {
        if let (true, DebugValue::Histogram(values)) = (key.key().name() == histogram, value) {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            found.insert(labels.join(" "), values.into_iter().map(|value| value.into_inner()).collect());
        }
    }
    found
}

#[track_caller]
fn assert_between(least: Duration, seconds: &[f64], most: Duration) {
    assert!(!seconds.is_empty());
    for each in seconds {
        assert!((least.as_secs_f64()..=most.as_secs_f64()).contains(each), "{seconds:?}");
    }
}

#[test]
fn a_message_is_timed_from_its_enqueue_on_whatever_its_path_and_the_database_s_clock() {
    let (latency, ahead) = (Duration::from_millis(40), HOUR * 24);
    let found = seconds(metrics::ENQUEUE_TO_ACK, async || {
        let world = lanes::world();
        world.store.advance(ahead);
        world.broker.set_latency(latency);
        let relay = world.start().await;
        world.until("every lane is owned", || lanes::owned(&relay) == usize::from(LANES)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (inserted_at, message) = (world.now(), envelope("orders"));
        let row = world.store.insert(message.clone(), InsertOptions::default().leased_for(STALENESS));
        let message = crate::message::Envelope { created_at: world.store.now(), ..message };
        world.link.hand_over(vec![inline(row, message, inserted_at)]);
        world.commit_and_hand_over("orders");
        world.commit("invoices");
        world.commit_keyed_and_hand_over("a");
        world.drained().await;
    });
    let labels: Vec<&str> = found.keys().map(String::as_str).collect();
    let topic = format!("topic={} transport=default", lanes::TOPIC);
    let expected = [
        "topic=invoices transport=default path=swept",
        &format!("{topic} path=lane"),
        "topic=orders transport=default path=confirmed",
        "topic=orders transport=default path=inline",
    ];
    let mut expected = expected.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(labels, expected);
    for of_path in found.values() {
        assert_between(latency, of_path, Duration::from_secs(2));
    }
}

#[test]
fn an_outage_is_in_the_time_from_enqueue_to_acknowledgement() {
    let scenario = async || {
        let world = World::new();
        world.broker.go_down();
        let _relay = world.start().await;
        world.commit("orders");
        tokio::time::sleep(HOUR).await;
        world.broker.go_up();
        world.drained().await;
    };
    let found = seconds(metrics::ENQUEUE_TO_ACK, scenario);
    assert_between(HOUR, &found["topic=orders transport=default path=swept"], HOUR + Duration::from_secs(10));
    let sent = seconds(metrics::SEND, scenario);
    assert_between(Duration::ZERO, &sent["topic=orders transport=default outcome=delivered"], Duration::from_secs(1));
}

#[test]
fn a_delayed_message_is_timed_from_when_it_is_due() {
    let found = seconds(metrics::ENQUEUE_TO_ACK, async || {
        let world = World::new();
        let _relay = world.start().await;
        world.store.insert(envelope("orders"), InsertOptions::default().deliver_after(HOUR));
        tokio::time::sleep(HOUR).await;
        world.drained().await;
    });
    assert_between(Duration::ZERO, &found["topic=orders transport=default path=swept"], Duration::from_secs(2));
}

#[test]
fn a_send_is_timed_by_its_outcome() {
    let latency = Duration::from_millis(300);
    let found = seconds(metrics::SEND, async || {
        let world = World::new();
        world.broker.set_latency(latency);
        world.broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Temporary));
        let _relay = world.start().await;
        for _ in 0..5 {
            world.commit_and_hand_over("orders");
        }
        world.drained().await;
    });
    let (delivered, temporary) = (
        &found["topic=orders transport=default outcome=delivered"],
        &found["topic=orders transport=default outcome=temporary"],
    );
    assert_eq!((found.len(), delivered.len(), temporary.len()), (2, 5, 2), "{found:?}");
    assert_between(latency, delivered, latency + Duration::from_millis(50));
}

/// On virtual time and by calls of the store; the bench `idle` counts the statements of PostgreSQL.
#[test]
fn an_idle_relay_makes_at_most_one_call_a_second() {
    let idle_for = Duration::from_secs(600);
    let calls = seconds(metrics::STATEMENT, async || {
        let world = World::new();
        let _relay = world.start().await;
        tokio::time::sleep(idle_for).await;
    });
    let count = |statement: &str| calls.get(&format!("store=memory statement={statement}")).map_or(0, Vec::len);
    assert!(count("poll") > 500 && count("backlog") >= 20 && count("prune") >= 5, "{calls:?}");
    let all: usize = calls.values().map(Vec::len).sum();
    assert!(all as f64 <= idle_for.as_secs_f64(), "{all}");
}

/// Otherwise a dashboard that reads the list misses them, and a label without bounds would go unnoticed.
#[test]
fn every_metric_has_the_labels_that_the_list_says() {
    let recorder = recorded(async || {
        let world = lanes::world();
        world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Temporary));
        let relay = world.start().await;
        world.commit("orders");
        world.commit_and_hand_over("invoices");
        world.commit_keyed_and_hand_over("a");
        world.drained().await;
        relay.backlog().await.unwrap();
        relay.shutdown(Duration::from_secs(5)).await;
    });
    let mut seen = 0;
    for (key, ..) in recorder.snapshot().into_vec() {
        let name = key.key().name();
        let metric = metrics::ALL.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}"));
        let mut labels: Vec<&str> = key.key().labels().map(|label| label.key()).collect();
        let mut listed = metric.labels.to_vec();
        labels.sort_unstable();
        listed.sort_unstable();
        assert_eq!(labels, listed, "{name}");
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}
