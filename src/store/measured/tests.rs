use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;
use crate::metrics;
use crate::store::memory::{Call, Fault};
use crate::store::{LaneCount, MemoryStore};

/// Where the trait has a default method, the compiler does not ask for this one.
#[test]
fn every_method_of_a_store_is_passed_on() {
    let (interface, measured) = (include_str!("../interface.rs"), include_str!("mod.rs"));
    let (_, methods) = interface.split_once("pub trait Store:").expect("the trait");
    let (methods, _) = methods.split_once("\n}\n").expect("its end");
    let names = methods.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
    let names: Vec<&str> = names.filter(|name| name.chars().all(|of| of.is_ascii_lowercase() || of == '_')).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let is_method = |line: &str| line.trim_start_matches("async ").starts_with(&format!("fn {name}("));
        assert!(measured.lines().any(|line| is_method(line.trim_start())), "{name}");
    }
}

/// Calls and errors by the labels `store statement`.
fn measured(scenario: impl AsyncFnOnce(Measured, MemoryStore)) -> BTreeMap<String, (Vec<f64>, u64)> {
    let recorder = DebuggingRecorder::new();
    ::metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            scenario(Measured::new(store.clone()), store).await;
        });
    });
    let mut calls: BTreeMap<String, (Vec<f64>, u64)> = BTreeMap::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let labels: Vec<&str> = key.key().labels().map(|label| label.value()).collect();
        let call = calls.entry(labels.join(" ")).or_default();
        match (key.key().name(), value) {
            (metrics::STATEMENT, DebugValue::Histogram(seconds)) => {
                call.0 = seconds.into_iter().map(|seconds| seconds.into_inner()).collect();
            }
            (metrics::STATEMENT_ERRORS, DebugValue::Counter(errors)) => call.1 = errors,
            (name, _) => panic!("{name}"),
        }
    }
    calls
}

#[test]
fn calls_are_timed_and_their_errors_counted() {
    let calls = measured(async |store, inner| {
        inner.inject(Call::Backlog, Fault::Slow(Duration::from_millis(1_500)));
        assert_eq!(store.backlog(10).await.unwrap(), []);
        inner.inject(Call::Backlog, Fault::Refused(StoreError::Conflict("as the test says".into())));
        store.backlog(10).await.unwrap_err();
        let lanes = store.lanes().expect("it has lanes");
        lanes.prepare_lanes(&[] as &[LaneCount]).await.unwrap();
        assert!(store.notices().is_none() && store.halves().is_none() && store.admin().is_some());
    });
    assert_eq!(calls.len(), 2, "what was never called has no series: {calls:?}");
    assert_eq!(calls["memory backlog"], (vec![1.5, 0.0], 1));
    assert_eq!(calls["memory prepare_lanes"], (vec![0.0], 0));
}

#[test]
fn a_claim_is_timed_until_it_is_read_and_its_close_apart() {
    let calls = measured(async |store, inner| {
        inner.inject(Call::Close, Fault::Slow(Duration::from_secs(2)));
        let spec = ClaimSpec {
            topic: "orders".into(),
            after: None,
            rows_max: 1,
            bytes_max: 1,
            lock_duration: Duration::from_secs(10),
            lease_duration: Duration::from_secs(1),
            watermark_slack_duration: Duration::ZERO,
            keep: None,
        };
        let claim = store.claim(&spec).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        claim.handle.close(&[], &[]).await.unwrap();
    });
    assert_eq!(
        (calls["memory claim"].0.as_slice(), calls["memory close"].0.as_slice()),
        ([0.0].as_slice(), [2.0].as_slice())
    );
}
