//! What a page has read from the large tables, as the database counts it.

use std::time::{Duration, Instant};

use rusqlite::StatementStatus;
use rusqlite::types::Value as Bound;
use serde_json::Value;

use crate::database::{Database, Kind};

const DEADLINE: Duration = Duration::from_secs(60);

/// How often the row of our own table was read, as far as PostgreSQL has counted.
const MARKER: &str = "SELECT seq_tup_read AS number FROM pg_stat_user_tables WHERE relname = '{m}_marker'";

/// Rows, or entries of indexes, that the two tables had read so far.
///
/// PostgreSQL and MariaDB count for each table. A session of PostgreSQL reports at its end.
pub(crate) async fn so_far(database: &Database) -> i64 {
    let (m, d) = (database.names.messages(), database.names.dead_letters());
    match database.kind {
        Kind::Postgres => {
            let by_index = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes";
            let by_scan = "SELECT sum(seq_tup_read) FROM pg_stat_user_tables";
            let of_tables = format!("WHERE relname IN ('{m}', '{d}')");
            let sql = format!("SELECT (({by_index} {of_tables}) + ({by_scan} {of_tables}))::bigint AS number");
            database.number(&sql).await
        }
        Kind::Mariadb => {
            let sql =
                "SELECT CAST(COALESCE(SUM(ROWS_READ), 0) AS SIGNED) AS number FROM information_schema.TABLE_STATISTICS";
            database.number(&format!("{sql} WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('{m}', '{d}')")).await
        }
        Kind::Sqlite => 0,
    }
}

/// Has the server count what is read from each table.
pub(crate) async fn start(database: &Database) {
    match database.kind {
        Kind::Postgres => {
            database.run("CREATE TABLE {m}_marker AS SELECT 1").await;
            // Our own session has read the tables when they were filled, and reports within a second: all at once.
            database.number("SELECT count(*) AS number FROM {m}_marker").await;
            until(database, "what we have read is counted", MARKER, |read| read > 0).await;
        }
        Kind::Mariadb => database.run("SET GLOBAL userstat = 1").await,
        Kind::Sqlite => {}
    }
}

/// Undoes [`start`].
pub(crate) async fn stop(database: &Database) {
    if database.kind == Kind::Postgres {
        database.run("DROP TABLE {m}_marker").await;
    }
}

/// Waits until the sessions of a dashboard that was dropped have ended, and what they read is counted. Only on PostgreSQL it matters.
pub(crate) async fn wait_for_sessions(database: &Database) {
    if database.kind != Kind::Postgres {
        return;
    }
    let sessions = "SELECT count(*) AS number FROM pg_stat_activity WHERE application_name = '{m}'";
    until(database, "the sessions end", sessions, |open| open == 0).await;
    // Before PostgreSQL 15 a process collects the counts over a socket, in order. So one more session reads a row of a table of its
    // own: once that is counted, so is what came before.
    let before = database.number(MARKER).await;
    database.run_in_session("SELECT * FROM {m}_marker").await;
    until(database, "what was read is counted", MARKER, |read| read > before).await;
}

async fn until(database: &Database, what: &str, sql: &str, is_reached: impl Fn(i64) -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_reached(database.number(sql).await) {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::task::yield_now().await;
    }
}

/// Runs statements of SQLite once more, and counts the steps of its virtual machine: a few for each row that is read.
pub(crate) fn steps(database: &Database, statements: &[(String, String)]) -> i64 {
    let Some(file) = database.file() else { return 0 };
    let conn = rusqlite::Connection::open(file).expect("open");
    let mut steps = 0;
    for (text, binds) in statements {
        let mut statement = conn.prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut rows = statement.query(rusqlite::params_from_iter(bound(binds))).expect(text);
        while rows.next().unwrap_or_else(|error| panic!("{text}: {error}")).is_some() {}
        drop(rows);
        steps += i64::from(statement.get_status(StatementStatus::VmStep));
    }
    steps
}

/// Binds as Diesel shows them.
fn bound(binds: &str) -> Vec<Bound> {
    let binds: Vec<Value> = serde_json::from_str(binds).unwrap_or_else(|error| panic!("{binds}: {error}"));
    let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok()).expect("a byte");
    let bound = |value: &Value| match value {
        Value::Array(bytes) => Bound::Blob(bytes.iter().map(byte).collect()),
        Value::Number(number) => Bound::Integer(number.as_i64().expect("an integer")),
        Value::String(text) => Bound::Text(text.clone()),
        other => panic!("{other} in {binds:?}"),
    };
    binds.iter().map(bound).collect()
}
