//! A relay of an ordered topic on each database: order, lanes that change hands, and failures that hold a key.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::relay::Relay;
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore, Store};
use diesel_outbox::transport::{Answer, FailureClass, MemoryTransport};
use diesel_outbox::{Message, MessageId, Outbox, OutboxBackend, Topic};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};

const DEADLINE: Duration = Duration::from_secs(60);

fn outbox() -> Outbox {
    let topic = Topic::new("accounts").ordered_by_key().retry(Fixed::from(vec![Duration::from_millis(50)]));
    Outbox::builder().topic(topic).build().expect("an outbox")
}

fn owned(relay: &Relay) -> usize {
    let status = relay.status();
    status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).count()
}

async fn until(what: &str, state: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Messages of five keys, by key in the order of their commits.
fn enqueue<C>(outbox: &Outbox, conn: &mut C, committed: &mut HashMap<String, Vec<MessageId>>)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    for number in 0..60 {
        let key = (number % 5).to_string();
        let id = outbox.enqueue(conn, &Message::to("accounts").key(key.as_str())).expect("enqueue");
        committed.entry(key).or_default().push(id);
    }
}

async fn keeps_the_order<C, S: Store>(mut conn: C, store: impl Fn() -> S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, elsewhere, broker) = (outbox(), outbox(), MemoryTransport::new());
    broker.set_latency(Duration::from_millis(1));
    let mut committed = HashMap::new();
    enqueue(&outbox, &mut conn, &mut committed);
    let bad = committed["3"][7];
    broker.answer_matching(Answer::Fail(FailureClass::Record), move |sent| sent.message_id == bad);
    let first = outbox.relay().store(store()).transport(broker.clone()).start().await.expect("start");
    until("every lane is owned", || owned(&first) == 16).await;
    enqueue(&outbox, &mut conn, &mut committed);
    until("all but what waits is sent", || broker.delivered().len() == 120 - (24 - 7)).await;
    broker.forget_answers();
    let second = elsewhere.relay().store(store()).transport(broker.clone()).start().await.expect("start");
    until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    enqueue(&outbox, &mut conn, &mut committed);
    let report = first.shutdown(DEADLINE).await;
    assert!(report.is_clean(), "{report:?}");
    until("the other owns all", || owned(&second) == 16).await;
    enqueue(&outbox, &mut conn, &mut committed);
    until("everything is sent", || broker.delivered().len() >= 240).await;
    assert!(second.flush(DEADLINE).await);
    assert_eq!(second.backlog().await.expect("the backlog").live(), 0);
    assert!(second.shutdown(DEADLINE).await.is_clean());
    let mut delivered: HashMap<String, Vec<MessageId>> = HashMap::new();
    for envelope in broker.delivered() {
        delivered.entry(envelope.key.unwrap_or_default()).or_default().push(envelope.message_id);
    }
    assert_eq!(delivered, committed, "each once, and each key in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_keeps_the_order_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let conn = PgConnection::establish(&url).expect("connect");
    keeps_the_order(conn, || PostgresStore::new(pool::<PgConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_keeps_the_order_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let conn = MysqlConnection::establish(&url).expect("connect");
    keeps_the_order(conn, || MysqlStore::new(pool::<MysqlConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_keeps_the_order_on_sqlite() {
    let file = SqliteFile::fresh();
    keeps_the_order(file.connect(), || SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
}
