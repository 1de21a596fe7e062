//! Diesel promises no order of its events. The commit hook stands on this one; a new version that changes it fails here.

use std::sync::{Arc, Mutex};

use diesel::connection::{Instrumentation, InstrumentationEvent};
use diesel::prelude::*;
use diesel::result::Error;
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};

use super::databases::{AsyncDatabase, AsyncSqlite, Database};

/// Writes events as the hook reads them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("log"))
    }
}

impl Instrumentation for Log {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        let line = match event {
            InstrumentationEvent::BeginTransaction { depth, .. } => format!("begin {depth}"),
            InstrumentationEvent::CommitTransaction { depth, .. } => format!("commit {depth}"),
            InstrumentationEvent::RollbackTransaction { depth, .. } => format!("rollback {depth}"),
            InstrumentationEvent::StartQuery { .. } => "start".to_owned(),
            InstrumentationEvent::FinishQuery { error, .. } => {
                if error.is_some() {
                    "failed".to_owned()
                } else {
                    "ok".to_owned()
                }
            }
            _ => return,
        };
        self.0.lock().expect("log").push(line);
    }
}

/// Commits around a savepoint that rolls back and one that is released, with a statement that fails.
const EXPECTED: &[&str] = &[
    "begin 1",
    "start",
    "ok",
    "begin 2",
    "start",
    "ok",
    "start",
    "failed",
    "rollback 2",
    "start",
    "ok",
    "begin 2",
    "start",
    "ok",
    "start",
    "ok",
    "commit 2",
    "start",
    "ok",
    "commit 1",
    "start",
    "ok",
];

fn sync<C: Database>() {
    let Some(mut conn) = C::fresh() else { return };
    let log = Log::default();
    conn.set_instrumentation(log.clone());
    let committed = conn.transaction(|conn| {
        let failed = conn.transaction(|conn| conn.batch_execute("INSERT INTO nowhere VALUES (1)"));
        assert!(failed.is_err());
        conn.transaction(|conn| conn.place(1))
    });
    committed.expect("commit");
    assert_eq!(log.take(), EXPECTED);
    conn.transaction(|_| Err::<(), _>(Error::RollbackTransaction)).expect_err("rolled back");
    assert_eq!(log.take(), ["begin 1", "start", "ok", "rollback 1", "start", "ok"]);
}

async fn asynchronous<C: AsyncDatabase>() {
    let Some(mut conn) = C::fresh().await else { return };
    let log = Log::default();
    conn.set_instrumentation(log.clone());
    let committed = conn.transaction(async |conn| {
        let failed = conn.transaction(async |conn| conn.batch_execute("INSERT INTO nowhere VALUES (1)").await);
        assert!(failed.await.is_err());
        conn.transaction(async |conn| conn.batch_execute("INSERT INTO shop_orders VALUES (1)").await).await
    });
    committed.await.expect("commit");
    assert_eq!(log.take(), EXPECTED);
}

#[test]
fn sqlite() {
    sync::<SqliteConnection>();
}

#[test]
fn postgres() {
    sync::<PgConnection>();
}

#[test]
fn mariadb() {
    sync::<MysqlConnection>();
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_async() {
    asynchronous::<AsyncSqlite>().await;
}

#[tokio::test]
async fn postgres_async() {
    asynchronous::<AsyncPgConnection>().await;
}

#[tokio::test]
async fn mariadb_async() {
    asynchronous::<AsyncMysqlConnection>().await;
}
