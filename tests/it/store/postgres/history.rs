//! The partitions of the history.

use diesel::pg::Pg;
use diesel_outbox::internals::store::{ClaimSpec, HistoryRow, HistoryStore, Keep, Locking, RowKey, Store};
use diesel_outbox::internals::store_suite::OpenTransaction;
use diesel_outbox::store::ConnectionPool;

use super::connections::deadpool;
use super::under_test::PostgresUnderTest;
use crate::store::{insert, spec};

const KEEP: Keep = Keep { days: 1, awaits_processing: false };

async fn send(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) -> RowKey {
    let key = insert(test).await;
    let settled = test.store.settle_into_history(&[HistoryRow { key, keep: KEEP }], Locking::Skip).await;
    assert_eq!(settled.expect("settle"), [key]);
    key
}

fn rows_in(test: &PostgresUnderTest<impl ConnectionPool<Pg>>, partition: &str) -> i32 {
    let table = format!("{}_{partition}", test.names.history());
    test.numbers(&format!("SELECT count(*)::int AS number FROM {table}"))[0]
}

/// Creates a partition for a day that is long over and moves everything there.
fn expire_all(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) {
    let history = test.names.history();
    test.run(&format!(
        "CREATE TABLE {history}_20200101 (LIKE {history} INCLUDING ALL); \
         ALTER TABLE {history} ATTACH PARTITION {history}_20200101 FOR VALUES FROM ('2020-01-01') TO ('2020-01-02'); \
         UPDATE {history} SET falls_on = '2020-01-01'"
    ));
}

fn partitions(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) -> i32 {
    let history = test.names.history();
    test.numbers(&format!("SELECT count(*)::int AS number FROM pg_inherits WHERE inhparent = '{history}'::regclass"))[0]
}

#[tokio::test]
async fn an_expired_day_is_dropped_as_a_whole() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    test.store.ensure_partitions(&[1]).await.expect("ensure_partitions");
    let made = partitions(&test);
    assert_eq!(made, 5, "the default one, today's and three days ahead");
    let old = send(&test).await;
    assert_eq!(rows_in(&test, "default"), 0, "it is in the partition of its day");
    expire_all(&test);
    let young = send(&test).await;
    assert!(test.store.prune(100).await.expect("prune").more);
    assert_eq!(partitions(&test), made);
    assert_eq!(test.store.sent(old.message_id).await.expect("sent"), None);
    assert!(test.store.sent(young.message_id).await.expect("sent").is_some());
    assert!(!test.store.prune(100).await.expect("prune").more);
}

/// A reader may lock the history for as long as it likes: dropping a partition waits only a moment, and settles go on.
#[tokio::test]
async fn a_reader_blocks_dropping_a_day_and_no_settle() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    send(&test).await;
    expire_all(&test);
    let reader = test.begin(&format!("SELECT 1 FROM {}", test.names.history()));
    let refused = test.store.prune(100).await.expect_err("somebody reads it");
    assert!(refused.is_retriable(), "{refused}");
    send(&test).await;
    Box::new(reader).commit().await;
    assert!(test.store.prune(100).await.expect("prune").more);
}

/// A writer of the default partition blocks creating the days ahead. That times out soon, so no settle waits for long.
#[tokio::test]
async fn a_writer_blocks_making_days_and_no_settle() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let (before, history) = (partitions(&test), test.names.history());
    let writer = test.begin(&format!("LOCK TABLE {history}_default IN ROW EXCLUSIVE MODE"));
    let refused = test.store.ensure_partitions(&[1]).await.expect_err("somebody writes to it");
    assert!(refused.is_retriable() && refused.to_string().contains("lock timeout"), "{refused}");
    assert_eq!(partitions(&test), before, "none, or all");
    send(&test).await;
    Box::new(writer).commit().await;
    test.store.ensure_partitions(&[1]).await.expect("ensure_partitions");
    assert!(partitions(&test) > before);
}

/// Protocol rule: an open claim has no lock on the history before its last statement.
#[tokio::test]
async fn an_open_claim_blocks_dropping_no_day() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    send(&test).await;
    expire_all(&test);
    let key = insert(&test).await;
    let claim = test.store.claim(&ClaimSpec { keep: Some(KEEP), ..spec() }).await.expect("claim");
    assert!(test.store.prune(100).await.expect("prune").more);
    assert_eq!(claim.handle.close(&[key], &[]).await.expect("close").settled, [key]);
    assert!(test.store.sent(key.message_id).await.expect("sent").is_some());
}

/// A day with rows in the default partition cannot be attached, but the other days can.
#[tokio::test]
async fn a_late_day_blocks_no_other() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    send(&test).await;
    assert_eq!(rows_in(&test, "default"), 1);
    test.store.ensure_partitions(&[1]).await.expect("ensure_partitions");
    assert_eq!(partitions(&test), 1 + 3, "all but the first day");
    test.store.ensure_partitions(&[1]).await.expect("again");
    let history = test.names.history();
    test.run(&format!("UPDATE {history}_default SET falls_on = '2020-01-01'"));
    assert_eq!(test.store.prune(100).await.expect("prune").rows, 1);
    test.store.ensure_partitions(&[1]).await.expect("ensure_partitions");
    assert_eq!(partitions(&test), 1 + 4);
}

/// Two nodes that find the same day missing.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_ensure_partitions_make_each_once() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    for days in 1..20 {
        let days = [days * 10];
        let (one, other) = tokio::join!(test.store.ensure_partitions(&days), test.store.ensure_partitions(&days));
        one.and(other).expect("ensure_partitions");
    }
    assert_eq!(partitions(&test), 1 + 19 * 4);
}
