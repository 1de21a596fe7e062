//! The consumer removes old entries of its inbox.

use super::bed::{Bed, DEADLINE, On, numbers, wait_until};

async fn old_entries_are_removed(on: On) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let place = &bed.place;
    let old = match on {
        On::Postgres => "'00e0a5c8-0000-7000-8000-000000000001'",
        _ => "X'00e0a5c8000070008000000000000001'",
    };
    place.run(&format!("INSERT INTO outbox_inbox (message_id, consumer) VALUES ({old}, 1)"));
    let entries = || place.count("SELECT count(*) FROM outbox_inbox");
    place.send(numbers(0..5));
    let consumer = place.start(place.consumer().without_pruning(), |_| Ok(()));
    place.wait_until_consumed();
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    assert_eq!(entries(), 6, "it was told not to");
    let consumer = place.start(place.consumer(), |_| Ok(()));
    wait_until("the old one is removed", || entries() == 5);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn old_entries_are_removed_on_postgres() {
    old_entries_are_removed(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_entries_are_removed_on_mariadb() {
    old_entries_are_removed(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_entries_are_removed_on_sqlite() {
    old_entries_are_removed(On::Sqlite).await;
}
