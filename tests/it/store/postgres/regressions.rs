//! Failures that occurred, named by the trace that showed them.

use std::time::Duration;

use diesel::pg::Pg;
use diesel_outbox::TableNames;
use diesel_outbox::internals::store::{Locking, RowKey, RowRef, Store, StoreWarning};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::store::{ConnectionPool, PostgresStore, SchemaProblem, StoreError};

use super::connections::{deadpool, r2d2};
use super::under_test::PostgresUnderTest;
use crate::store::audit::assert_record_is_part_of_the_write;
use crate::store::edited::assert_edits_are_isolated;
use crate::store::{assert_works_without_pauses, insert, spec};

/// T5: an id can be reused, and a late settle then names another message's row.
#[tokio::test]
async fn late_settle_removes_no_row_with_a_reused_id() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let first = insert(&test).await;
    test.run("TRUNCATE {m} RESTART IDENTITY");
    let second = insert(&test).await;
    assert_eq!(first.id, second.id);
    assert_eq!(test.store.settle(&[first], Locking::Wait).await.expect("settle"), []);
    let claim = test.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.handle.close(&[first], &[first]).await.expect("close").settled, []);
    assert_eq!(test.live_rows().await.len(), 1);
}

/// T9: at REPEATABLE READ a claim fails on every row that changed since it began. A claim is READ COMMITTED whatever the role's
/// default, ends by itself, and like a settle does not wait for the disk.
#[tokio::test(flavor = "multi_thread")]
async fn claim_brings_its_own_settings() {
    let with_default =
        |url: &str| deadpool(&format!("{url}?options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"));
    let Some(test) = PostgresUnderTest::open(with_default) else { return };
    test.run(
        "CREATE TABLE {m}_seen (isolation text, synchronous text, idle_timeout text); \
         CREATE FUNCTION {m}_see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO {m}_seen VALUES (current_setting('transaction_isolation'), current_setting('synchronous_commit'), \
             current_setting('idle_in_transaction_session_timeout')); RETURN old; END $$; \
         CREATE TRIGGER see BEFORE DELETE ON {m} FOR EACH ROW EXECUTE FUNCTION {m}_see();",
    );
    let claimed = insert(&test).await;
    let claim = test.store.claim(&spec()).await.expect("claim");
    claim.handle.close(&[claimed], &[]).await.expect("close");
    let settled = insert(&test).await;
    test.store.settle(&[settled], Locking::Skip).await.expect("settle");
    let seen = |which: &str| test.numbers(&format!("SELECT 1 AS number FROM {{m}}_seen WHERE {which}")).len();
    assert_eq!(seen("isolation = 'read committed' AND synchronous = 'off' AND idle_timeout = '5s'"), 1, "the claim");
    assert_eq!(seen("isolation = 'read committed' AND synchronous = 'off' AND idle_timeout = '0'"), 1, "the settle");
    assert_eq!(seen("true"), 2);
}

/// T10: two relays settle the same rows, each in its own order. If rows are locked in the order of the batch, a third of the runs
/// deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn settles_in_any_order_do_not_deadlock() {
    let Some(test) = PostgresUnderTest::open(r2d2) else { return };
    for _ in 0..20 {
        test.run(
            "INSERT INTO {m} (message_id, topic, kind, headers, due_at) \
             SELECT gen_random_uuid(), 'orders', '', '[]', now() FROM generate_series(1, 500)",
        );
        let up: Vec<RowKey> = test.live_rows().await.into_iter().map(|row| row.key).collect();
        let down: Vec<RowKey> = up.iter().rev().copied().collect();
        let (one, other) = tokio::join!(test.store.settle(&up, Locking::Wait), test.store.settle(&down, Locking::Wait));
        assert_eq!(one.expect("settle").len() + other.expect("settle").len(), up.len());
    }
}

/// T12: one row that the database refuses fails its batch, and no row of the batch counts as settled.
#[tokio::test]
async fn refused_row_fails_its_whole_batch() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let keys = [insert(&test).await, insert(&test).await];
    test.run(&format!(
        "CREATE FUNCTION {{m}}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$; \
         CREATE TRIGGER refuse BEFORE DELETE ON {{m}} FOR EACH ROW WHEN (old.id = {}) EXECUTE FUNCTION {{m}}_refuse();",
        keys[1].id
    ));
    let claim = test.store.claim(&spec()).await.expect("claim");
    let error = claim.handle.close(&keys, &[]).await.expect_err("the trigger refuses");
    assert!(!error.is_retriable(), "{error}");
    assert_eq!(test.live_rows().await.len(), 2, "a COMMIT after the error would have answered ROLLBACK");
    assert_eq!(test.store.settle(&[keys[0]], Locking::Wait).await.expect("settle"), [keys[0]]);
    assert!(test.store.settle(&[keys[1]], Locking::Wait).await.is_err());
}

/// A row that a trigger silently keeps is reported as kept, and the others of its claim as settled.
#[tokio::test]
async fn row_kept_by_a_trigger_is_not_reported_as_settled() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let keys = [insert(&test).await, insert(&test).await, insert(&test).await];
    test.run(&format!(
        "CREATE FUNCTION {{m}}_spare() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
         CREATE TRIGGER spare BEFORE DELETE ON {{m}} FOR EACH ROW WHEN (old.id = {}) EXECUTE FUNCTION {{m}}_spare();",
        keys[1].id
    ));
    let claim = test.store.claim(&spec()).await.expect("claim");
    let closed = claim.handle.close(&keys, &[]).await.expect("close");
    assert_eq!(closed.settled, [keys[0], keys[2]]);
    assert_eq!(test.live_rows().await.len(), 1);
}

/// A lease is a difference of instants, and one of them can be infinite: one such row must not block its batch.
#[tokio::test]
async fn row_that_is_never_due_blocks_no_confirm_of_others() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let keys = [insert(&test).await, insert(&test).await];
    test.run(&format!("UPDATE {{m}} SET due_at = 'infinity' WHERE id = {}", keys[0].id));
    let refs: Vec<RowRef> = keys.iter().map(|key| (*key).into()).collect();
    let confirmed = test.store.confirm(&refs).await.expect("confirm");
    assert_eq!(confirmed.len(), 2);
    let of = |key: RowKey| confirmed.iter().find(|found| found.row.key() == key).expect("it is there").lease_left;
    assert_eq!(of(keys[0]), Duration::ZERO);
}

/// A lock time-out or a deadlock is transient; the relay tries the same batch again.
#[tokio::test]
async fn lock_timeout_is_retriable() {
    let impatient = |url: &str| deadpool(&format!("{url}?options=-c%20lock_timeout%3D50"));
    let Some(test) = PostgresUnderTest::open(impatient) else { return };
    let key = insert(&test).await;
    let lock = test.lock(key).await.expect("a lock");
    let error = test.store.settle(&[key], Locking::Wait).await.expect_err("the row is locked");
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    lock.roll_back().await;
}

async fn problem(store: &PostgresStore<impl ConnectionPool<Pg>>) -> SchemaProblem {
    match store.check().await {
        Err(StoreError::Schema(problem)) => problem,
        other => panic!("not a schema problem: {other:?}"),
    }
}

#[tokio::test]
async fn check_reports_schema_problems() {
    let Some(mut test) = PostgresUnderTest::open(deadpool) else { return };
    test.store.check().await.expect("nothing is wrong yet");

    let (messages, dead) = (test.names.messages(), test.names.dead_letters());
    test.run("COMMENT ON TABLE {d} IS 'diesel-outbox schema 7'");
    let version = SchemaProblem::Version { table: dead.clone(), found: Some(7), needed: 1 };
    assert_eq!(problem(&test.store).await, version);
    test.run("COMMENT ON TABLE {m} IS 'orders that came by mail'");
    let unmarked = SchemaProblem::Version { table: messages, found: None, needed: 1 };
    assert_eq!(problem(&test.store).await, unmarked);
    test.run("COMMENT ON TABLE {m} IS 'diesel-outbox schema 1'; DROP TABLE {d}");
    assert_eq!(problem(&test.store).await, SchemaProblem::Missing { table: dead });
    test.store.use_tables(&TableNames::default().schema("nowhere").expect("a plain name"));
    assert_eq!(problem(&test.store).await, SchemaProblem::Missing { table: "nowhere.outbox_messages".to_owned() });
}

#[tokio::test]
async fn check_sees_settings_that_lose_commits_or_refuse_writes() {
    let lossy = |url: &str| deadpool(&format!("{url}?options=-c%20synchronous_commit%3Doff"));
    let Some(test) = PostgresUnderTest::open(lossy) else { return };
    let warning = StoreWarning::NotDurable { setting: "synchronous_commit = off" };
    assert!(test.store.check().await.expect("check").contains(&warning));
    // The server itself may run without fsync, which gives a separate warning.
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    assert!(!test.store.check().await.expect("check").contains(&warning));

    let read_only = |url: &str| deadpool(&format!("{url}?options=-c%20default_transaction_read_only%3Don"));
    let Some(test) = PostgresUnderTest::open(read_only) else { return };
    assert!(matches!(problem(&test.store).await, SchemaProblem::Setting { .. }));
}

/// An unreachable server is no schema problem: the relay starts, and tries again.
#[tokio::test]
async fn absent_database_is_retriable() {
    let store = PostgresStore::new(r2d2("postgres://127.0.0.1:1/nowhere")).statement_timeout(Duration::from_secs(1));
    let error = store.check().await.expect_err("nobody listens there");
    assert!(error.is_retriable(), "{error}");
    let store = PostgresStore::new(deadpool("postgres://127.0.0.1:1/nowhere"));
    let error = store.check().await.expect_err("nobody listens there");
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn relays_work_without_a_table_of_pauses() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let drop_table = || test.run(&format!("DROP TABLE {}", test.names.paused_topics()));
    assert_works_without_pauses(&test.store, drop_table).await;
}

#[tokio::test]
async fn an_operation_that_cannot_be_recorded_changes_nothing() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let drop_table = || test.run(&format!("DROP TABLE {}", test.names.audit()));
    assert_record_is_part_of_the_write(&test, drop_table).await;
}

#[tokio::test]
async fn a_row_edited_by_hand_blocks_no_other_row() {
    let Some(test) = PostgresUnderTest::open(deadpool) else { return };
    let own = [
        "due_at = '-infinity'",
        "due_at = '4713-01-01 BC'",
        "due_at = 'epoch'",
        "created_at = 'infinity'",
        "created_at = '-infinity'",
        "deliver_at = '-infinity'",
        "kind = '', key = ''",
    ];
    let set = |edit: &str| test.run(&format!("UPDATE {{m}} SET {edit}"));
    assert_edits_are_isolated(&test, &own, set).await;
}
