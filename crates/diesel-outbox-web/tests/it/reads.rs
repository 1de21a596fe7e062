//! What a page has read from the large tables, as the database counts it.

use std::time::{Duration, Instant};

use rusqlite::StatementStatus;
use rusqlite::types::Value as Bound;
use serde_json::Value;

use crate::database::{Database, Kind};

const DEADLINE: Duration = Duration::from_secs(60);

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
    if database.kind == Kind::Mariadb {
        database.run("SET GLOBAL userstat = 1").await;
    }
}

/// Waits until the sessions of a dashboard that was dropped have ended.
pub(crate) async fn wait_for_sessions(database: &Database) {
    let end = Instant::now() + DEADLINE;
    while sessions(database).await > 0 {
        assert!(Instant::now() < end, "the sessions have not ended within {DEADLINE:?}");
        tokio::task::yield_now().await;
    }
}

/// How many sessions dashboards have; only on PostgreSQL it matters.
async fn sessions(database: &Database) -> i64 {
    match database.kind {
        Kind::Postgres => {
            let sql = "SELECT count(*) AS number FROM pg_stat_activity WHERE application_name = '{m}'";
            database.number(sql).await
        }
        Kind::Mariadb | Kind::Sqlite => 0,
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
