//! The one write lock: the store waits for it, but never too long.

use std::time::Duration;

use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel::sqlite::Sqlite;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{Decision, Locking, PollSpec, Store};
use diesel_outbox::internals::store_suite::{Marking, StoreUnderTest};
use diesel_outbox::store::{ConnectionPool, StoreError};

use super::under_test::SqliteUnderTest;
use super::{R2d2Pool, open};
use crate::store::{insert, spec};

type Async = SyncConnectionWrapper<SqliteConnection>;

/// Shorter than the application holds the lock.
const SHORT_TIMEOUT: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(15);

async fn one_r2d2(file: &str) -> R2d2Pool {
    R2d2Pool::builder().max_size(1).build(diesel::r2d2::ConnectionManager::new(file)).expect("a pool")
}

async fn one_deadpool(file: &str) -> deadpool::Pool<Async> {
    deadpool::Pool::builder(AsyncDieselConnectionManager::new(file)).max_size(1).build().expect("a pool")
}

async fn one_bb8(file: &str) -> bb8::Pool<Async> {
    bb8::Pool::builder().max_size(1).build(AsyncDieselConnectionManager::new(file)).await.expect("a pool")
}

async fn one_mobc(file: &str) -> mobc::Pool<Async> {
    mobc::Pool::builder().max_open(1).build(AsyncDieselConnectionManager::new(file))
}

#[tokio::test]
async fn a_write_waits_for_the_application() {
    let under_test = open().await;
    let keys = [insert(&under_test).await];
    let mut application = under_test.begin();
    let mut settle = under_test.store.settle(&keys, Locking::Skip);
    let early = tokio::time::timeout(SHORT_TIMEOUT, &mut settle).await;
    assert!(early.is_err(), "it wrote while another connection held the lock: {early:?}");
    application.0.batch_execute("COMMIT").expect("commit");
    assert_eq!(settle.await.expect("settle"), keys);
}

#[tokio::test]
async fn a_database_that_stays_locked_is_a_conflict() {
    let under_test = open().await;
    insert(&under_test).await;
    let _application = under_test.begin();
    let refused = under_test.store.claim(&spec()).await.expect_err("locked by the application");
    assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
}

#[tokio::test]
async fn reads_do_not_wait_for_the_application() {
    let under_test = open().await;
    let key = insert(&under_test).await;
    let _application = under_test.begin();
    let due = under_test.store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due;
    assert_eq!(due.len(), 1);
    let refs = [diesel_outbox::internals::store::RowRef { id: Some(key.id), message_id: key.message_id }];
    assert_eq!(under_test.store.confirm(&refs).await.expect("confirm").len(), 1);
    under_test.store.check().await.expect("check");
}

/// While another connection writes, nobody can tell whether a mark will be written; and a broker's check must not wait for that.
#[tokio::test]
async fn a_broker_check_waits_for_no_writer() {
    let under_test = open().await;
    let halves = under_test.store.halves().expect("marks");
    let (marked, unmarked, topic) = (MessageId::new(), MessageId::new(), "orders".into());
    under_test.mark(marked, Marking::InTransaction).await.expect("a mark").commit().await;
    let application = under_test.begin();
    let decisions = async { (halves.decide(marked, &topic).await, halves.decide(unmarked, &topic).await) };
    let (of_marked, of_unmarked) = tokio::time::timeout(Duration::from_secs(1), decisions).await.expect("answers");
    assert_eq!(of_marked.expect("decide"), Decision::Committed);
    assert_eq!(of_unmarked.expect("decide"), Decision::Open);
    drop(application);
    assert_eq!(halves.decide(unmarked, &topic).await.expect("decide"), Decision::RolledBack);
    // Only the broker's check has this short wait.
    let application = under_test.begin();
    let reported = [marked];
    let mut removal = halves.remove_marks(&reported);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut removal).await;
    assert!(early.is_err(), "it timed out as early as a broker's check: {early:?}");
    drop(application);
    assert_eq!(removal.await.expect("remove_marks"), 1);
}

#[tokio::test]
async fn a_call_that_takes_too_long_leaves_the_pool_usable_r2d2() {
    assert_usable_after_timeout(SqliteUnderTest::open(one_r2d2).await).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_leaves_the_pool_usable_deadpool() {
    assert_usable_after_timeout(SqliteUnderTest::open(one_deadpool).await).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_leaves_the_pool_usable_bb8() {
    assert_usable_after_timeout(SqliteUnderTest::open(one_bb8).await).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_leaves_the_pool_usable_mobc() {
    assert_usable_after_timeout(SqliteUnderTest::open(one_mobc).await).await;
}

/// A statement goes on in its thread after its caller stops waiting: nobody may get its connection before it ends.
async fn assert_usable_after_timeout(under_test: SqliteUnderTest<impl ConnectionPool<Sqlite>>) {
    let keys = [insert(&under_test).await, insert(&under_test).await];
    assert_eq!(under_test.store.settle(&keys[..1], Locking::Skip).await.expect("settle"), keys[..1]);

    let under_test = under_test.configure(|store| store.statement_timeout(SHORT_TIMEOUT));
    let application = under_test.begin();
    let slow = under_test.store.settle(&keys[1..], Locking::Skip).await.expect_err("locked by the application");
    assert!(matches!(slow, StoreError::TimedOut { .. }), "{slow:?}");
    drop(application);

    let under_test = under_test.configure(|store| store.statement_timeout(TIMEOUT));
    under_test.store.settle(&keys[1..], Locking::Skip).await.expect("the one connection is free again");
    assert!(under_test.live_rows().await.is_empty(), "settled by one call or the other");
}

/// A runtime that ends drops its abandoned calls, and nothing breaks.
#[test]
fn a_runtime_may_end_in_the_middle_of_a_call() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (under_test, application, keys) = runtime.block_on(async {
        let under_test = SqliteUnderTest::open(one_deadpool).await;
        let under_test = under_test.configure(|store| store.statement_timeout(SHORT_TIMEOUT));
        let keys = [insert(&under_test).await];
        let application = under_test.begin();
        let slow = under_test.store.settle(&keys, Locking::Skip).await;
        assert!(matches!(slow, Err(StoreError::TimedOut { .. })), "{slow:?}");
        (under_test, application, keys)
    });
    drop(runtime);
    drop(application);
    let under_test = under_test.configure(|store| store.statement_timeout(TIMEOUT));
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    other.block_on(async {
        let found = under_test.live_rows().await.len();
        assert_eq!(under_test.store.settle(&keys, Locking::Skip).await.map(|settled| settled.len()).ok(), Some(found));
    });
}
