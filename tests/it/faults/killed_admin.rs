//! kill -9 in the middle of a redrive of many dead letters: the audit says how many were committed.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::admin::{Admin, AuditEntry, AuditFilter, DeadLetterFilter, RedriveRate};
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::{Outbox, Topic};
use serde::{Deserialize, Serialize};

use super::any_shop::Database;
use super::child::ShopProcess;
use super::shop::DEADLINE;
use crate::outbox::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};

const CONFIG: &str = "OUTBOX_TEST_ADMIN_CHILD";
const LETTERS: i64 = 500;
/// So many are redriven before the process dies: several transactions.
const BEFORE: i64 = 30;
const PER_TRANSACTION: i64 = 10;

/// Where a process redrives.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Script {
    on: Database,
    url: String,
}

impl Script {
    fn admin(&self) -> Admin {
        let outbox = Outbox::builder().topic(Topic::new("orders")).build().unwrap();
        match self.on {
            Database::Postgres => outbox.admin(PostgresStore::new(pool::<PgConnection>(&self.url))),
            Database::Mariadb => outbox.admin(MysqlStore::new(pool::<MysqlConnection>(&self.url))),
            Database::Sqlite => outbox.admin(SqliteStore::new(pool::<SqliteConnection>(&self.url))),
        }
    }

    /// Ten at once, fifty a second: ten seconds for all.
    async fn redrive(&self) -> usize {
        let rate = RedriveRate::default().rows_max(PER_TRANSACTION as usize).per_second(50);
        self.admin().acting_as("alice").redrive_all(&DeadLetterFilter::new(), rate, |_| ()).await.unwrap()
    }

    fn spawn(&self) -> ShopProcess {
        ShopProcess::spawn("faults::killed_admin::an_admin_process_is_one_of_these_tests", CONFIG, self)
    }

    async fn entry(&self) -> AuditEntry {
        let mut entries = self.admin().audit(&AuditFilter::new().actor("alice"), None, 10).await.unwrap().items;
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_process_is_one_of_these_tests() {
    if let Ok(script) = std::env::var(CONFIG) {
        let script: Script = serde_json::from_str(&script).unwrap();
        script.redrive().await;
    }
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// Another connection to the database.
trait Counting {
    fn count(&mut self, sql: &str) -> i64;

    fn live(&mut self) -> i64 {
        self.count("SELECT count(*) AS number FROM outbox_messages")
    }
}

macro_rules! impl_counting {
    ($($connection:ty),+) => {$(
        impl Counting for $connection {
            fn count(&mut self, sql: &str) -> i64 {
                diesel::sql_query(sql).get_result::<Count>(self).unwrap().number
            }
        }
    )+};
}

impl_counting!(PgConnection, MysqlConnection, SqliteConnection);

async fn until(what: &str, mut state: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The process is dead. What its sessions have begun, the server rolls back or commits.
async fn assert_recorded(script: &Script, mut conn: impl Counting) {
    let entry = script.entry().await;
    let live = conn.live();
    assert_eq!((entry.changed as i64, entry.ended_at), (live, None), "{entry:?}");
    assert!((BEFORE..LETTERS).contains(&live), "{live}");
    assert_eq!(live % PER_TRANSACTION, 0, "whole transactions");
    let dead = conn.count("SELECT count(*) AS number FROM outbox_dead_letters");
    assert_eq!(live + dead, LETTERS);
}

const COLUMNS: &str = "(id, message_id, topic, lane, kind, headers, due_at, epoch, attempts, failures, errors, created_at, dead_at, reason)";

fn filled_postgres(url: &str) -> PgConnection {
    let mut conn = PgConnection::establish(url).unwrap();
    conn.batch_execute(&format!(
        "INSERT INTO outbox_dead_letters {COLUMNS} SELECT n, gen_random_uuid(), 'orders', -1, '', '[]', now(), 0, 0, 0, '[]', now(), \
         now() - interval '1 hour', 'refused' FROM generate_series(1, {LETTERS}) n"
    ))
    .unwrap();
    conn
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let mut conn = filled_postgres(&url);
    let script = Script { on: Database::Postgres, url };
    let mut process = script.spawn();
    until("some are redriven", || conn.live() >= BEFORE).await;
    process.kill().await;
    wait_for_sessions(&mut conn).await;
    assert_recorded(&script, conn).await;
}

async fn wait_for_sessions(conn: &mut PgConnection) {
    let others = "SELECT count(*) AS number FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    until("its sessions end", || conn.count(others) == 0).await;
}

/// Between the statement that redrives and the one that records it.
#[tokio::test(flavor = "multi_thread")]
async fn inside_a_transaction_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let mut conn = filled_postgres(&url);
    let script = Script { on: Database::Postgres, url };
    let mut process = script.spawn();
    until("some are redriven", || conn.live() >= BEFORE).await;
    conn.batch_execute("BEGIN; LOCK TABLE outbox_audit IN SHARE MODE").unwrap();
    let waiting = "SELECT count(*) AS number FROM pg_locks WHERE relation = 'outbox_audit'::regclass AND NOT granted";
    until("it waits to record", || conn.count(waiting) == 1).await;
    process.kill().await;
    conn.batch_execute("COMMIT").unwrap();
    wait_for_sessions(&mut conn).await;
    assert_recorded(&script, conn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let mut conn = MysqlConnection::establish(&url).unwrap();
    conn.batch_execute(&format!(
        "INSERT INTO outbox_dead_letters {COLUMNS} SELECT seq, UNHEX(LPAD(HEX(seq), 32, '0')), 'orders', -1, '', '[]', UTC_TIMESTAMP(6), \
         0, 0, 0, '[]', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, 'refused' FROM seq_1_to_{LETTERS}"
    ))
    .unwrap();
    let script = Script { on: Database::Mariadb, url };
    let mut process = script.spawn();
    until("some are redriven", || conn.live() >= BEFORE).await;
    process.kill().await;
    let others =
        "SELECT count(*) AS number FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    until("its sessions end", || conn.count(others) == 0).await;
    assert_recorded(&script, conn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite() {
    let file = SqliteFile::fresh();
    let mut conn = file.connect();
    conn.batch_execute(&format!(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {LETTERS}) \
         INSERT INTO outbox_dead_letters {COLUMNS} SELECT n, CAST(printf('%016d', n) AS blob), 'orders', -1, '', '[]', 0, 0, 0, 0, '[]', \
         0, 0, 'refused' FROM n"
    ))
    .unwrap();
    let script = Script { on: Database::Sqlite, url: file.url() };
    let mut process = script.spawn();
    until("some are redriven", || conn.live() >= BEFORE).await;
    process.kill().await;
    assert_recorded(&script, conn).await;
}

/// One that nobody kills ends its entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_that_ends_says_so() {
    let file = SqliteFile::fresh();
    file.connect()
        .batch_execute(&format!(
            "INSERT INTO outbox_dead_letters {COLUMNS} VALUES (1, CAST('0123456789abcdef' AS blob), 'orders', -1, '', '[]', 0, 0, 0, 0, \
             '[]', 0, 0, 'refused')"
        ))
        .unwrap();
    let script = Script { on: Database::Sqlite, url: file.url() };
    let mut process = script.spawn();
    assert!(process.wait_for_exit().await.success());
    let entry = script.entry().await;
    assert_eq!((entry.changed, entry.ended_at.is_some()), (1, true), "{entry:?}");
}
