//! What an enqueue to an ordered topic writes, refuses and locks.

use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use diesel::connection::LoadConnection;
use diesel::prelude::*;
use diesel::query_builder::SqlQuery;
use diesel::query_dsl::methods::LoadQuery;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::{
    AsyncOutboxBackend, EnqueueError, Message, MessageId, OnFailedKey, Outbox, OutboxBackend, Topic, lane_of,
};

use super::databases::{AsyncDatabase, AsyncSqlite, Database, fresh_mariadb, fresh_postgres};

fn outbox() -> Outbox {
    let ordered = Topic::new("accounts").ordered_by_key().lanes(8);
    Outbox::builder().topic(ordered).topic(Topic::new("orders")).allow_outside_transaction().build().expect("an outbox")
}

fn serialized() -> Outbox {
    let serialized = Topic::new("accounts").ordered_by_key().serialize_by_key();
    Outbox::builder().topic(serialized).allow_outside_transaction().build().expect("an outbox")
}

fn keyed(key: &str) -> Message {
    Message::to("accounts").key(key).payload_bytes("opened")
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

fn numbers<C>(conn: &mut C, sql: &str) -> Vec<i64>
where
    C: LoadConnection,
    for<'a> SqlQuery: LoadQuery<'a, C, Number>,
{
    let rows: Vec<Number> = diesel::sql_query(sql).load(conn).expect("numbers");
    rows.into_iter().map(|row| row.number).collect()
}

/// Rows of both kinds in one statement, each as its own topic has it. `epoch` says in SQL that a row is due in 1970.
fn rows_know_their_lane<C>(epoch: &str)
where
    C: Database + LoadConnection,
    C::Backend: OutboxBackend<C>,
    for<'a> SqlQuery: LoadQuery<'a, C, Number>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    outbox.enqueue(&mut conn, &keyed("a")).expect("one");
    let mixed = [keyed("b"), Message::to("orders").key("b"), keyed("Überweisung")];
    outbox.enqueue_all(&mut conn, mixed).expect("many");
    let lanes =
        numbers(&mut conn, &format!("SELECT {} AS number FROM outbox_messages ORDER BY id", lane_number::<C>()));
    let lane = |key| i64::from(lane_of(key, 8));
    assert_eq!(lanes, [lane("a"), lane("b"), -1, lane("Überweisung")]);
    let in_1970 = format!("SELECT {} AS number FROM outbox_messages WHERE {epoch}", lane_number::<C>());
    assert_eq!(numbers(&mut conn, &in_1970).len(), 3, "ordered rows, and only those, are due in 1970");
}

fn lane_number<C: Connection>() -> &'static str {
    if std::any::type_name::<C>().contains("Mysql") { "CAST(lane AS signed)" } else { "CAST(lane AS bigint)" }
}

#[test]
fn rows_know_their_lane_on_postgres() {
    rows_know_their_lane::<PgConnection>("due_at = 'epoch'");
}

#[test]
fn rows_know_their_lane_on_mariadb() {
    rows_know_their_lane::<MysqlConnection>("due_at = '1970-01-01'");
}

#[test]
fn rows_know_their_lane_on_sqlite() {
    rows_know_their_lane::<SqliteConnection>("due_at = 0");
}

async fn ids_grow_in_the_order_of_enqueue<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    for outbox in [outbox(), serialized()] {
        let before = conn.messages().await;
        let mut ids: Vec<MessageId> = Vec::new();
        ids.push(outbox.enqueue_async(&mut conn, &keyed("z")).await.expect("one"));
        let many = (0..50).map(|number| keyed(if number % 2 == 0 { "z" } else { "a" }));
        ids.extend(outbox.enqueue_all_async(&mut conn, many).await.expect("many"));
        assert_eq!(conn.messages().await[before.len()..], ids);
    }
}

#[tokio::test]
async fn ids_grow_in_the_order_of_enqueue_on_every_database() {
    ids_grow_in_the_order_of_enqueue::<AsyncPgConnection>().await;
    ids_grow_in_the_order_of_enqueue::<AsyncMysqlConnection>().await;
    ids_grow_in_the_order_of_enqueue::<AsyncSqlite>().await;
}

#[test]
fn a_message_without_a_key_is_refused() {
    let Some(mut conn) = SqliteConnection::fresh() else { return };
    let error = outbox().enqueue(&mut conn, &Message::to("accounts")).expect_err("it has no key");
    match EnqueueError::of(&error) {
        Some(refused @ EnqueueError::KeyMissing { topic }) => {
            assert_eq!(topic, "accounts");
            assert!(refused.to_string().contains("Message::key"), "{refused}");
        }
        other => panic!("{other:?}"),
    }
    let error = outbox().enqueue_all(&mut conn, [keyed("a"), Message::to("accounts")]).expect_err("one has no key");
    assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::KeyMissing { .. })));
    assert!(conn.messages().is_empty());
}

#[test]
fn settings_of_ordered_topics_require_an_ordered_topic() {
    let topics = [
        Topic::new("accounts").lanes(4),
        Topic::new("accounts").serialize_by_key(),
        Topic::new("accounts").on_failed_key(OnFailedKey::BlockKey),
    ];
    for topic in topics {
        let error = Outbox::builder().topic(topic).build().expect_err("it is not ordered").to_string();
        assert!(error.contains("ordered_by_key"), "{error}");
    }
    for lanes in [0, 1_025] {
        let topic = Topic::new("accounts").lanes(lanes).ordered_by_key();
        let error = Outbox::builder().topic(topic).build().expect_err("too few or too many").to_string();
        assert!(error.contains("1 to 1024 lanes"), "{error}");
    }
}

/// A transaction that enqueued holds its key until it ends; other keys are free.
fn serialized_keys_wait<C>(url: &str, is_waiting: impl Fn(&mut C) -> bool)
where
    C: Connection + LoadConnection + 'static,
    C::Backend: OutboxBackend<C>,
{
    let mut first = C::establish(url).expect("connect");
    let (locked, until_locked) = mpsc::channel();
    let url = url.to_owned();
    let outbox = serialized();
    let second = first
        .transaction(|conn| {
            let first_id = outbox.enqueue(conn, &keyed("a"))?;
            let (outbox, of_second) = (outbox.clone(), url.clone());
            let second = thread::spawn(move || {
                let mut conn = C::establish(&of_second).expect("connect");
                outbox.enqueue(&mut conn, &keyed("b")).expect("another key");
                locked.send(()).expect("the test waits");
                (outbox.enqueue(&mut conn, &keyed("a")).expect("the key is free in the end"), first_id)
            });
            until_locked.recv_timeout(Duration::from_secs(20)).expect("another key waits for nothing");
            let mut side = C::establish(&url).expect("connect");
            let end = std::time::Instant::now() + Duration::from_secs(20);
            while !is_waiting(&mut side) {
                assert!(std::time::Instant::now() < end, "no transaction waits for the key");
                // InnoDB keeps what it shows of its locks for as long as it is asked again within 0.1 s.
                thread::park_timeout(Duration::from_millis(200));
            }
            Ok::<_, diesel::result::Error>(second)
        })
        .expect("commit");
    let (second, first) = second.join().expect("it enqueued");
    assert!(second > first, "made behind it, and committed behind it");
}

#[test]
fn transactions_of_a_serialized_key_wait_for_each_other_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    serialized_keys_wait::<PgConnection>(&url, |conn| {
        let waiting = "SELECT count(*) AS number FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
        numbers(conn, waiting) == [1]
    });
}

#[test]
fn transactions_of_a_serialized_key_wait_for_each_other_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    serialized_keys_wait::<MysqlConnection>(&url, |conn| {
        let waiting = "SELECT count(*) AS number FROM information_schema.innodb_lock_waits w JOIN information_schema.innodb_trx t \
                       ON t.trx_id = w.requesting_trx_id JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                       WHERE p.db = DATABASE()";
        numbers(conn, waiting) == [1]
    });
}

/// Calls that name the same keys in opposite orders, again and again at the same time.
fn opposite_orders_do_not_deadlock<C>(url: &str)
where
    C: Connection + LoadConnection + 'static,
    C::Backend: OutboxBackend<C>,
{
    const ROUNDS: usize = 100;
    let (outbox, both) = (serialized(), Barrier::new(2));
    let refused = thread::scope(|scope| {
        let threads = [["a", "b", "c"], ["c", "b", "a"]].map(|keys| {
            let (outbox, both) = (&outbox, &both);
            scope.spawn(move || {
                let mut conn = C::establish(url).expect("connect");
                // Both threads do each round, whatever happens: the other one waits for it.
                let rounds = (0..ROUNDS).map(|_| {
                    both.wait();
                    conn.transaction(|conn| outbox.enqueue_all(conn, keys.map(keyed)))
                });
                rounds.filter_map(Result::err).collect::<Vec<_>>()
            })
        });
        threads.map(|thread| thread.join().expect("it ends"))
    });
    assert!(refused.iter().all(Vec::is_empty), "{refused:?}");
}

#[test]
fn calls_with_keys_in_opposite_orders_do_not_deadlock() {
    if let Some(url) = fresh_postgres() {
        opposite_orders_do_not_deadlock::<PgConnection>(&url);
    }
    if let Some(url) = fresh_mariadb() {
        opposite_orders_do_not_deadlock::<MysqlConnection>(&url);
    }
}
