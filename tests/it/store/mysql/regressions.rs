//! Failures that occurred, named by the trace that showed them.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::mysql::{Mysql, MysqlConnection};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel_migrations::MigrationHarness;
use diesel_outbox::TableNames;
use diesel_outbox::internals::store::{
    Failed, Held, Locking, NewDeadLetter, PollSpec, RowKey, RowRef, Store, StoreWarning,
};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::{ConnectionPool, MysqlStore, SchemaProblem, StoreError};
use xtask::servers::Mariadb;
use xtask::servers::mariadb::{Flush, Options};
use xtask::test_servers;

use super::plans_at_size::Tally;
use super::under_test::MysqlUnderTest;
use super::{deadpool, r2d2};
use crate::store::audit::assert_record_is_part_of_the_write;
use crate::store::edited::assert_edits_are_isolated;
use crate::store::{assert_works_without_pauses, eventually, insert, spec};

/// T5: the same id with another message is another row.
#[tokio::test]
async fn late_settle_removes_no_row_with_a_reused_id() {
    let Some(test) = MysqlUnderTest::open(deadpool) else { return };
    let first = insert(&test).await;
    test.run("TRUNCATE TABLE {m}");
    let second = insert(&test).await;
    assert_eq!(first.id, second.id);
    assert_eq!(test.store.settle(&[first], Locking::Wait).await.expect("settle"), []);
    let claim = test.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.handle.close(&[first], &[first]).await.expect("close").settled, []);
    assert_eq!(test.live_rows().await.len(), 1);
}

#[derive(Debug)]
struct FiveHoursEast;

impl CustomizeConnection<MysqlConnection, diesel::r2d2::Error> for FiveHoursEast {
    fn on_acquire(&self, conn: &mut MysqlConnection) -> Result<(), diesel::r2d2::Error> {
        conn.batch_execute("SET time_zone = '+05:00'").map_err(diesel::r2d2::Error::QueryError)
    }
}

/// T8: the session's time zone has no effect. NOW(6) follows it, and rows were due hours off.
#[tokio::test]
async fn time_zone_of_the_session_moves_nothing() {
    let east = |url: &str| {
        let pool = Pool::builder().min_idle(Some(0)).connection_customizer(Box::new(FiveHoursEast));
        pool.build(ConnectionManager::<MysqlConnection>::new(url)).expect("a pool")
    };
    let Some(test) = MysqlUnderTest::open(east) else { return };
    let key = insert(&test).await;
    let store = &test.store;
    let due = store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due;
    assert!(due[0].due_in.is_zero() && due[0].overdue_by < Duration::from_secs(60), "{due:?}");
    let claim = store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.rows.len(), 1);
    let held = claim.handle.close(&[], &[key]).await.expect("close").held;
    let lease_left = |due_at: std::time::SystemTime, now: std::time::SystemTime| due_at.duration_since(now);
    let (row, now) = (test.live_rows().await.remove(0), test.now().await);
    assert!(lease_left(row.due_at, now).is_ok_and(|left| left <= Duration::from_secs(30)), "{row:?}");
    assert_eq!(store.extend(&held, Duration::from_secs(60)).await.expect("extend"), [key]);
    let (row, now) = (test.live_rows().await.remove(0), test.now().await);
    assert!(lease_left(row.due_at, now).is_ok_and(|left| left <= Duration::from_secs(60)), "{row:?}");
}

/// T9: at REPEATABLE READ, the server's default, a claim of fewer rows than its limit locked the gap after them, and so blocked the
/// application's INSERTs.
#[tokio::test]
async fn claim_locks_no_gap() {
    let Some(test) = MysqlUnderTest::open(deadpool) else { return };
    insert(&test).await;
    let claim = test.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.rows.len(), 1);
    test.run("SET innodb_lock_wait_timeout = 0");
    for _ in 0..3 {
        insert(&test).await;
    }
    claim.handle.close(&[], &[]).await.expect("close");
}

/// T10: two relays settle the same rows, each in its own order.
#[tokio::test(flavor = "multi_thread")]
async fn settles_in_any_order_do_not_deadlock() {
    let Some(test) = MysqlUnderTest::open(r2d2) else { return };
    for _ in 0..20 {
        fill(&test, 500, "UTC_TIMESTAMP(6)");
        let up: Vec<RowKey> = test.live_rows().await.into_iter().map(|row| row.key).collect();
        let down: Vec<RowKey> = up.iter().rev().copied().collect();
        let (one, other) = tokio::join!(test.store.settle(&up, Locking::Wait), test.store.settle(&down, Locking::Wait));
        assert_eq!(one.expect("settle").len() + other.expect("settle").len(), up.len());
    }
}

fn fill(test: &MysqlUnderTest<impl ConnectionPool<Mysql>>, rows: u32, due_at: &str) {
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at) \
         SELECT UNHEX(REPLACE(UUID(), '-', '')), 'orders', '', '[]', {due_at} FROM seq_1_to_{rows}"
    ));
}

/// T6 and I10: a statement reads its own rows, not those that are not due.
#[tokio::test]
async fn backlog_that_is_not_due_is_not_read() {
    const BACKLOG: i32 = 20_000;
    let Some(test) = MysqlUnderTest::open(deadpool) else { return };
    fill(&test, BACKLOG.unsigned_abs(), "UTC_TIMESTAMP(6) + INTERVAL 1 YEAR");
    test.run("SET GLOBAL userstat = 1");
    let store = &test.store;
    for _ in 0..5 {
        let key = insert(&test).await;
        let claim = store.claim(&spec()).await.expect("claim");
        let held = claim.handle.close(&[], &[key]).await.expect("close").held[0];
        let other = Held { key: insert(&test).await, epoch: 0 };
        let unknown_id = RowRef { id: None, message_id: other.key.message_id };
        assert_eq!(store.confirm(&[unknown_id]).await.expect("confirm").len(), 1);
        assert_eq!(store.extend(&[held, other], Duration::from_secs(30)).await.expect("extend").len(), 2);
        assert_eq!(store.fail(&[failed(held)]).await.expect("fail").len(), 1);
        let dead = NewDeadLetter { held: other, reason: "attempts".to_owned() };
        assert_eq!(store.dead_letter(&[dead]).await.expect("dead_letter"), [other.key]);
        assert_eq!(store.settle_dead_letters(&[other.key]).await.expect("settle_dead_letters"), 1);
        assert_eq!(store.settle(&[held.key], Locking::Skip).await.expect("settle"), [held.key]);
        assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
        assert_eq!(store.backlog(100).await.expect("backlog")[0].live, 100);
    }
    let own = test.names.schema_name().expect("a database");
    let sql = "SELECT CAST(rows_read AS int) AS number FROM information_schema.table_statistics WHERE table_schema";
    let read = test.numbers(&format!("{sql} = '{own}' AND table_name = 'outbox_messages'"));
    assert!(read[0] > 0 && read[0] < BACKLOG / 10, "{read:?} rows read");
}

fn failed(held: Held) -> Failed {
    let wait = Duration::from_secs(10);
    Failed { held, wait, spends_attempt: true, class: "temporary", error: "timed out".to_owned() }
}

async fn problem(store: &MysqlStore<impl ConnectionPool<Mysql>>) -> SchemaProblem {
    match store.check().await {
        Err(StoreError::Schema(problem)) => problem,
        other => panic!("not a schema problem: {other:?}"),
    }
}

#[tokio::test]
async fn check_reports_schema_problems() {
    let Some(mut test) = MysqlUnderTest::open(deadpool) else { return };
    let (messages, dead) = (test.names.messages(), test.names.dead_letters());
    test.run("ALTER TABLE {d} COMMENT = 'diesel-outbox schema 7'");
    let version = SchemaProblem::Version { table: dead.clone(), found: Some(7), needed: 1 };
    assert_eq!(problem(&test.store).await, version);
    test.run("ALTER TABLE {m} COMMENT = ''");
    let unmarked = SchemaProblem::Version { table: messages.clone(), found: None, needed: 1 };
    assert_eq!(problem(&test.store).await, unmarked);
    test.run("ALTER TABLE {m} COMMENT = 'diesel-outbox schema 1', ENGINE = MyISAM");
    assert!(matches!(problem(&test.store).await, SchemaProblem::Setting { found, .. } if found.contains("MyISAM")));
    test.run("ALTER TABLE {m} ENGINE = InnoDB");
    test.run("DROP TABLE {d}");
    assert_eq!(problem(&test.store).await, SchemaProblem::Missing { table: dead });
    // Without a schema: in the database of the connection.
    test.store.use_tables(&TableNames::default());
    let missing = SchemaProblem::Missing { table: "outbox_dead_letters".to_owned() };
    assert_eq!(problem(&test.store).await, missing);
}

/// A look-up of several tables at once opened every table of the server.
#[tokio::test]
async fn check_reads_no_more_where_there_are_more_tables() {
    let Some(test) = MysqlUnderTest::open(r2d2) else { return };
    let read_by_check = async || {
        let tally = Tally::default();
        let pool = Pool::builder().max_size(1).min_idle(Some(0)).connection_customizer(Box::new(tally.clone()));
        let pool = pool.build(ConnectionManager::<MysqlConnection>::new(&test.url)).expect("a pool");
        let mut store = MysqlStore::new(pool);
        store.use_tables(&test.names);
        store.check().await.expect("check");
        drop(store);
        eventually("the session has recorded its reads", || tally.0.lock().expect("unpoisoned").pop()).await
    };
    let few = read_by_check().await;
    (0..200).for_each(|table| test.run(&format!("CREATE TABLE {{m}}_{table} (id int)")));
    let many = read_by_check().await;
    assert!(many < few + 100, "{few} rows, and {many} with 200 tables more");
}

/// READ COMMITTED cannot write with a statement binlog; and a server can be configured to lose commits.
#[tokio::test]
async fn check_sees_settings_that_lose_commits_or_refuse_writes() {
    let settings = [("log-bin", "binlog"), ("binlog-format", "STATEMENT")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = Options { flush: Flush::EverySecond, settings, ..Options::default() };
    let Some(server) = test_servers::own_or_skip(Mariadb::start(&options)) else { return };
    let mut control = MysqlConnection::establish(&server.url()).expect("connect");
    control.run_pending_migrations(MIGRATIONS).expect("migrate");

    let store = MysqlStore::new(deadpool(&server.url()));
    assert!(matches!(problem(&store).await, SchemaProblem::Setting { found, .. } if found.contains("STATEMENT")));
    control.batch_execute("SET GLOBAL binlog_format = 'ROW', GLOBAL sync_binlog = 0").expect("set");
    let store = MysqlStore::new(deadpool(&server.url()));
    let settings = ["innodb_flush_log_at_trx_commit <> 1", "sync_binlog <> 1"];
    let warnings = settings.map(|setting| StoreWarning::NotDurable { setting });
    assert_eq!(store.check().await.expect("check"), warnings);
    control.batch_execute("SET GLOBAL read_only = 1").expect("set");
    assert!(matches!(problem(&store).await, SchemaProblem::Setting { found, .. } if found.contains("read_only")));
}

#[tokio::test]
async fn relays_work_without_a_table_of_pauses() {
    let Some(test) = MysqlUnderTest::open(deadpool) else { return };
    let drop_table = || test.run(&format!("DROP TABLE {}", test.names.paused_topics()));
    assert_works_without_pauses(&test.store, drop_table).await;
}

#[tokio::test]
async fn an_operation_that_cannot_be_recorded_changes_nothing() {
    let Some(test) = MysqlUnderTest::open(deadpool) else { return };
    let drop_table = || test.run(&format!("DROP TABLE {}", test.names.audit()));
    assert_record_is_part_of_the_write(&test, drop_table).await;
}

#[tokio::test]
async fn a_row_edited_by_hand_blocks_no_other_row() {
    let Some(test) = MysqlUnderTest::open(deadpool) else { return };
    let own = [
        "due_at = 0",
        "due_at = '0001-01-01'",
        "due_at = '1970-01-01'",
        "created_at = 0",
        "created_at = '9999-12-31'",
        "deliver_at = 0",
        "kind = '', `key` = ''",
    ];
    let set = |edit: &str| test.run(&format!("UPDATE {{m}} SET {edit}"));
    assert_edits_are_isolated(&test, &own, set).await;
}
