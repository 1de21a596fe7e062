//! State that a connection leaves open ends with it, over both kinds of pool.

use std::time::Duration;

use diesel::mysql::Mysql;
use diesel_outbox::internals::store::{Locking, PollSpec, Store};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::store::{ConnectionPool, StoreError};

use super::under_test::MysqlUnderTest;
use crate::store::{insert, spec};

macro_rules! over_both_pools {
    ($($case:ident),+ $(,)?) => {
        $(mod $case {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn r2d2() {
                if let Some(test) = super::MysqlUnderTest::open(super::super::r2d2) {
                    super::$case(test).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn deadpool() {
                if let Some(test) = super::MysqlUnderTest::open(super::super::deadpool) {
                    super::$case(test).await;
                }
            }
        })+
    };
}

over_both_pools! {
    calls_one_after_the_other_share_a_connection,
    time_out_closes_the_connection,
    dropped_claim_closes_its_connection,
    refused_row_fails_its_whole_batch,
    dead_connections_cost_one_call,
    lock_wait_ends_before_the_deadline,
}

async fn calls_one_after_the_other_share_a_connection(test: MysqlUnderTest<impl ConnectionPool<Mysql>>) {
    for _ in 0..5 {
        let key = insert(&test).await;
        let claim = test.store.claim(&spec()).await.expect("claim");
        claim.handle.close(&[key], &[]).await.expect("close");
        test.store.settle(&[key], Locking::Skip).await.expect("settle");
    }
    assert_eq!(test.threads().len(), 1);
}

async fn time_out_closes_the_connection(mut test: MysqlUnderTest<impl ConnectionPool<Mysql>>) {
    let key = insert(&test).await;
    let lock = test.lock(key).await.expect("a lock");
    // Opens the connection while there is time: a busy machine takes longer than what is set next.
    test.store.settle(&[key], Locking::Skip).await.expect("settle nothing");
    test.store = test.store.statement_timeout(Duration::from_millis(300));
    let open = test.threads();
    let error = test.store.settle(&[key], Locking::Wait).await.expect_err("the row is locked");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error}");
    lock.roll_back().await;
    test.until_closed(&open).await;
    test.store = test.store.statement_timeout(Duration::from_secs(5));
    assert_eq!(test.store.settle(&[key], Locking::Wait).await.expect("settle"), [key]);
}

async fn dropped_claim_closes_its_connection(test: MysqlUnderTest<impl ConnectionPool<Mysql>>) {
    let key = insert(&test).await;
    let claim = test.store.claim(&spec()).await.expect("claim");
    let open = test.threads();
    drop(claim);
    test.until_closed(&open).await;
    let claim = test.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.handle.close(&[key], &[]).await.expect("close").settled, [key]);
}

/// T12: one row that the server refuses fails its batch, and no row of the batch counts as settled.
async fn refused_row_fails_its_whole_batch(test: MysqlUnderTest<impl ConnectionPool<Mysql>>) {
    let keys = [insert(&test).await, insert(&test).await];
    let own = test.names.schema_name().expect("a database");
    test.run(&format!(
        "CREATE TRIGGER {own}.refuse BEFORE DELETE ON {{m}} FOR EACH ROW \
         IF old.id = {} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused'; END IF",
        keys[1].id
    ));
    let claim = test.store.claim(&spec()).await.expect("claim");
    let open = test.threads();
    let error = claim.handle.close(&keys, &[]).await.expect_err("the trigger refuses");
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
    test.until_closed(&open).await;
    assert_eq!(test.live_rows().await.len(), 2);
    assert_eq!(test.store.settle(&[keys[0]], Locking::Wait).await.expect("settle"), [keys[0]]);
    assert!(test.store.settle(&[keys[1]], Locking::Wait).await.is_err());
}

async fn dead_connections_cost_one_call(test: MysqlUnderTest<impl ConnectionPool<Mysql>>) {
    for claim in [test.store.claim(&spec()).await, test.store.claim(&spec()).await] {
        claim.expect("claim").handle.close(&[], &[]).await.expect("close");
    }
    test.store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll");
    let open = test.threads();
    for thread in &open {
        test.run(&format!("KILL {thread}"));
    }
    test.until_closed(&open).await;
    let error = test.store.poll(&PollSpec::everything(["orders".into()])).await.expect_err("the connection is dead");
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    test.store.poll(&PollSpec::everything(["orders".into()])).await.expect("a new connection");
    test.store.claim(&spec()).await.expect("claim").handle.close(&[], &[]).await.expect("close");
}

/// The server would go on waiting for a lock after its client stopped: it times out first, and says why.
async fn lock_wait_ends_before_the_deadline(mut test: MysqlUnderTest<impl ConnectionPool<Mysql>>) {
    test.store = test.store.statement_timeout(Duration::from_secs(3));
    let key = insert(&test).await;
    let lock = test.lock(key).await.expect("a lock");
    let error = test.store.settle(&[key], Locking::Wait).await.expect_err("the row is locked");
    assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    lock.roll_back().await;
}
