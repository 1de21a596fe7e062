//! What an enqueue writes, and what it costs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use diesel::connection::{Connection, InstrumentationEvent, SimpleConnection};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable, Text};
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::internals::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_ROWS_MAX, HOOK_REFS_MAX};
use diesel_outbox::{AsyncOutboxBackend, Headers, Message, Outbox, OutboxBackend, TableNames, Topic};
use metrics_util::CompositeKey;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::databases::{AsyncDatabase, AsyncSqlite, Database, fresh_mariadb, fresh_postgres};
use super::{handed_over, order, outbox};

#[derive(QueryableByName)]
struct Stored {
    #[diesel(sql_type = Text)]
    topic: String,
    #[diesel(sql_type = Nullable<Text>)]
    msg_key: Option<String>,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Text)]
    headers: String,
    #[diesel(sql_type = Nullable<Text>)]
    payload: Option<String>,
}

fn stored(conn: &mut PgConnection) -> Vec<Stored> {
    let sql = "SELECT topic, key AS msg_key, kind, headers, encode(payload, 'escape') AS payload FROM outbox_messages ORDER BY id";
    diesel::sql_query(sql).load(conn).expect("rows")
}

fn check(rows: &[Stored]) {
    let [full, bare] = rows else { panic!("two rows") };
    assert_eq!(
        (full.topic.as_str(), full.msg_key.as_deref(), full.kind.as_str()),
        ("orders", Some("7"), "order.placed")
    );
    assert_eq!(full.payload.as_deref(), Some("{}"));
    assert_eq!(Headers::from_json(&full.headers).expect("headers").get("source"), Some(&b"shop"[..]));
    assert_eq!((bare.topic.as_str(), bare.msg_key.as_deref(), bare.kind.as_str()), ("payments", None, ""));
    assert_eq!((bare.headers.as_str(), bare.payload.as_deref()), ("[]", None), "a tombstone");
}

#[test]
fn rows_hold_the_message_as_it_is() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    outbox.enqueue(&mut conn, &order(7)).expect("one");
    outbox.enqueue(&mut conn, &Message::to("payments")).expect("one");
    check(&stored(&mut conn));
    conn.batch_execute("TRUNCATE outbox_messages").expect("truncate");
    outbox.enqueue_all(&mut conn, [order(7), Message::to("payments")]).expect("many");
    check(&stored(&mut conn));
}

#[derive(QueryableByName)]
struct Condition {
    #[diesel(sql_type = Bool)]
    yes: bool,
}

fn holds(conn: &mut PgConnection, sql: &str) -> bool {
    diesel::sql_query(sql).get_result::<Condition>(conn).expect("an answer").yes
}

fn holds_on_mariadb(conn: &mut MysqlConnection, sql: &str) -> bool {
    diesel::sql_query(sql).get_result::<Condition>(conn).expect("an answer").yes
}

/// T7: the lease counts from the INSERT, not from BEGIN.
#[test]
fn a_lease_counts_from_the_insert_on_postgres() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let transaction = conn.transaction(|conn| {
        conn.batch_execute("CREATE TEMP TABLE mark AS SELECT clock_timestamp() AS made_at")?;
        outbox.enqueue(conn, &order(1))?;
        outbox.enqueue_all(conn, [order(2), order(3)])
    });
    transaction.expect("commit");
    assert!(holds(
        &mut conn,
        "SELECT bool_and(due_at >= made_at + interval '3 s' AND created_at >= made_at) AS yes FROM outbox_messages, mark"
    ));
    assert!(holds(
        &mut conn,
        "SELECT count(*) = 3 AND max(due_at) < clock_timestamp() + interval '3 s' AS yes FROM outbox_messages"
    ));
    drop(test_hook);
    outbox.enqueue(&mut conn, &order(4)).expect("without a relay");
    assert!(
        holds(&mut conn, "SELECT min(due_at) <= clock_timestamp() AS yes FROM outbox_messages"),
        "due at once, for others"
    );
}

/// T7 and T8: also where the session has a time zone of its own.
#[test]
fn a_lease_counts_from_the_insert_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    conn.batch_execute("SET time_zone = '+05:00'").expect("time zone");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let transaction = conn.transaction(|conn| {
        conn.batch_execute("CREATE TEMPORARY TABLE mark AS SELECT UTC_TIMESTAMP(6) AS made_at")?;
        outbox.enqueue(conn, &order(1))?;
        outbox.enqueue_all(conn, [order(2), order(3)])
    });
    transaction.expect("commit");
    let lease = "SELECT COUNT(*) = 3 AND MIN(due_at) >= MAX(made_at) + INTERVAL 3 SECOND \
                 AND MAX(due_at) < UTC_TIMESTAMP(6) + INTERVAL 3 SECOND AS yes FROM outbox_messages, mark";
    assert!(holds_on_mariadb(&mut conn, lease));
    drop(test_hook);
    outbox.enqueue(&mut conn, &order(4)).expect("without a relay");
    assert!(holds_on_mariadb(&mut conn, "SELECT MIN(due_at) <= UTC_TIMESTAMP(6) AS yes FROM outbox_messages"));
}

#[test]
fn tables_may_have_other_names() {
    let Some(url) = fresh_postgres() else { return };
    let mut conn = PgConnection::establish(&url).expect("connect");
    let names = TableNames::default().prefix("shop_").and_then(|names| names.schema("events")).expect("names");
    conn.batch_execute("CREATE SCHEMA events; CREATE TABLE events.shop_messages (LIKE outbox_messages INCLUDING ALL)")
        .expect("table");
    let outbox = Outbox::builder().topic(Topic::new("orders")).tables(names).build().expect("build");
    conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("enqueue");
    assert!(holds(&mut conn, "SELECT count(*) = 1 AS yes FROM events.shop_messages"));
}

/// The statements that were sent, and those that were prepared for the cache.
#[derive(Default)]
struct Counts {
    sent: usize,
    cached: Vec<String>,
}

/// I9: one round trip, because the statement cache holds the statement.
fn statements_are_cached<C: Database>(texts_max: usize)
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let counts = Arc::new(Mutex::new(Counts::default()));
    let log = Arc::clone(&counts);
    conn.set_instrumentation(outbox.commit_hook().chain(move |event: InstrumentationEvent<'_>| {
        let mut counts = log.lock().expect("counts");
        match event {
            InstrumentationEvent::StartQuery { .. } => counts.sent += 1,
            InstrumentationEvent::CacheQuery { sql, .. } => counts.cached.push(sql.to_owned()),
            _ => {}
        }
    }));
    for key in 0..3 {
        outbox.enqueue(&mut conn, &order(key)).expect("enqueue");
    }
    {
        let mut counts = counts.lock().expect("counts");
        assert_eq!(
            (counts.sent, counts.cached.len()),
            (3, 1),
            "one statement each, prepared once: {:?}",
            counts.cached
        );
        *counts = Counts::default();
    }
    let transaction = conn.transaction(|conn| {
        for rows in [2, 3, 7, 100, 255, 256, 300, 1_000] {
            outbox.enqueue_all(conn, (0..rows).map(order))?;
        }
        diesel::QueryResult::Ok(())
    });
    transaction.expect("commit");
    let counts = counts.lock().expect("counts");
    assert!(counts.cached.len() <= texts_max, "{} texts", counts.cached.len());
}

#[test]
fn statements_are_cached_on_sqlite() {
    statements_are_cached::<SqliteConnection>(5);
}

#[test]
fn statements_are_cached_on_postgres() {
    statements_are_cached::<PgConnection>(1);
}

#[test]
fn statements_are_cached_on_mariadb() {
    statements_are_cached::<MysqlConnection>(5);
}

/// The same through diesel-async, whose drivers have caches of their own.
async fn statements_are_cached_async<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let cached = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&cached);
    conn.set_instrumentation(outbox.commit_hook().chain(move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::CacheQuery { sql, .. } = event {
            log.lock().expect("log").push(sql.to_owned());
        }
    }));
    for key in 0..3 {
        outbox.enqueue_async(&mut conn, &order(key)).await.expect("enqueue");
    }
    assert_eq!(cached.lock().expect("log").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_cached_on_sqlite_async() {
    statements_are_cached_async::<AsyncSqlite>().await;
}

#[tokio::test]
async fn statements_are_cached_on_postgres_async() {
    statements_are_cached_async::<AsyncPgConnection>().await;
}

#[tokio::test]
async fn statements_are_cached_on_mariadb_async() {
    statements_are_cached_async::<AsyncMysqlConnection>().await;
}

/// More bytes than one packet takes (MariaDB's is 16 MiB) go in several statements, and still all or none.
fn large_messages<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let large = |key: i64| order(key).payload_bytes(vec![b'x'; 900_000]);
    let sent = outbox.enqueue_all(&mut conn, (0..30).map(large)).expect("27 MB");
    assert_eq!(conn.messages(), sent);
    assert_eq!(handed_over(&test_hook), sent);
    const { assert!(30 * 900_000 > 3 * ENQUEUE_BYTES_MAX, "more than one statement takes") };
}

#[test]
fn large_messages_on_sqlite() {
    large_messages::<SqliteConnection>();
}

#[test]
fn large_messages_on_postgres() {
    large_messages::<PgConnection>();
}

#[test]
fn large_messages_on_mariadb() {
    large_messages::<MysqlConnection>();
}

#[test]
fn several_statements_outside_a_transaction_are_all_or_none() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    conn.batch_execute("CREATE UNIQUE INDEX one_key ON outbox_messages (key)").expect("index");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let last_is_a_twin = (0..ENQUEUE_ROWS_MAX as i64).chain([0]).map(order);
    outbox.enqueue_all(&mut conn, last_is_a_twin).expect_err("the second statement fails");
    assert_eq!((conn.messages(), handed_over(&test_hook)), (vec![], vec![]));
}

#[test]
fn counts_written_handed_over_and_refused_messages() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let mut conn = SqliteConnection::fresh().expect("in memory");
        let outbox = outbox();
        let _test_hook = outbox.test_hook();
        let too_many = HOOK_REFS_MAX as i64 + 5;
        conn.transaction(|conn| outbox.enqueue_all(conn, (0..too_many).map(order))).expect("commit");
        conn.set_instrumentation(|_: InstrumentationEvent<'_>| {});
        conn.transaction(|conn| outbox.enqueue_all(conn, [order(1), order(2)])).expect("commit");
    });
    let counted: BTreeMap<String, u64> = snapshotter.snapshot().into_vec().into_iter().filter_map(counter).collect();
    let handed_over = HOOK_REFS_MAX as u64;
    assert_eq!(counted["outbox_enqueued_total orders"], handed_over + 5 + 2);
    assert_eq!(counted["outbox_handed_over_total orders"], handed_over);
    assert_eq!(counted["outbox_left_to_sweeper_total too_many"], 5);
    assert_eq!(counted["outbox_left_to_sweeper_total no_hook"], 2);
}

type Entry = (CompositeKey, Option<metrics::Unit>, Option<metrics::SharedString>, DebugValue);

/// A counter under its name and its one label.
fn counter((key, _, _, value): Entry) -> Option<(String, u64)> {
    let DebugValue::Counter(count) = value else { return None };
    let label = key.key().labels().next().map_or("", |label| label.value());
    Some((format!("{} {label}", key.key().name()), count))
}
