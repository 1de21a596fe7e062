//! Rows of a shape that the process does not know are reported and sent.

use super::counted::counted;
use super::logged::Log;
use super::{DEADLINE, World, envelope};
use crate::metrics;
use crate::relay::fingerprints::KnownShapes;
use crate::store::InsertOptions;
use crate::transport::header::FINGERPRINT;

const PLACED: KnownShapes = KnownShapes { topic: Some("orders"), kinds: &["placed"], fingerprints: &["known"] };

fn commit(world: &World, fingerprint: &str) {
    let mut row = envelope("orders");
    "placed".clone_into(&mut row.kind);
    row.headers.push(FINGERPRINT, fingerprint);
    world.store.insert(row, InsertOptions::default());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_fingerprint_is_logged_once_and_its_rows_are_sent() {
    let (log, _guard) = Log::begin();
    let world = World::new();
    for fingerprint in ["known", "other", "other", "third"] {
        commit(&world, fingerprint);
    }
    let relay = world.relay().know_shapes(vec![PLACED]).start().await.unwrap();
    let sent = world.broker.wait_for_delivered(4, DEADLINE).await.unwrap();
    assert!(sent.iter().all(|message| message.headers.get(FINGERPRINT).is_some()));
    for (fingerprint, times) in [("known", 0), ("other", 1), ("third", 1)] {
        assert_eq!(log.times(&format!("fingerprint=\"{fingerprint}\"")), times, "{fingerprint}");
    }
    assert_eq!(log.times("event=\"fingerprint_unknown\""), 2);
    relay.shutdown(DEADLINE).await;
}

#[test]
fn messages_of_unknown_shapes_are_counted_by_topic() {
    let counts = counted(async || {
        let world = World::new();
        for fingerprint in ["known", "other", "other", "third"] {
            commit(&world, fingerprint);
        }
        let _relay = world.relay().know_shapes(vec![PLACED]).start().await.unwrap();
        world.drained().await;
    });
    assert_eq!(counts.of(metrics::FINGERPRINT_UNKNOWN), [("topic=orders transport=default", 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_relay_without_types_reports_nothing() {
    let (log, _guard) = Log::begin();
    let world = World::new();
    commit(&world, "other");
    let relay = world.start().await;
    world.broker.wait_for_delivered(1, DEADLINE).await.unwrap();
    assert_eq!(log.times("fingerprint_unknown"), 0);
    relay.shutdown(DEADLINE).await;
}
