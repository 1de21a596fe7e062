//! A relay of an ordered topic on each database: order, lanes that change hands, and failures that hold a key.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::Relay;
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{Envelope, Limits, Message, MessageId, Outbox, OutboxBackend, Topic};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};

const DEADLINE: Duration = Duration::from_secs(60);

pub(super) fn outbox() -> Outbox {
    outbox_retrying_after(Duration::from_millis(50))
}

fn outbox_retrying_after(wait: Duration) -> Outbox {
    let topic = Topic::new("accounts").ordered_by_key().retry(Fixed::from(vec![wait]));
    Outbox::builder().topic(topic).allow_outside_transaction().build().expect("an outbox")
}

pub(super) fn owned(relay: &Relay) -> usize {
    let status = relay.status();
    status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).count()
}

pub(super) async fn until(what: &str, state: impl Fn() -> bool) {
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
    broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), move |sent| sent.message_id == bad);
    let first = outbox.relay().store(store()).transport(broker.clone()).start().await.expect("start");
    until("every lane is owned", || owned(&first) == 16).await;
    enqueue(&outbox, &mut conn, &mut committed);
    until("all but what waits is sent", || broker.delivered().len() == 120 - (24 - 7)).await;
    broker.clear_responses();
    let second = elsewhere.relay().store(store()).transport(broker.clone()).start().await.expect("start");
    until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    enqueue(&outbox, &mut conn, &mut committed);
    let report = first.shutdown(DEADLINE).await;
    assert!(report.is_clean(), "{report:?}");
    until("the other owns all", || owned(&second) == 16).await;
    enqueue(&outbox, &mut conn, &mut committed);
    until("everything is sent", || broker.delivered().len() >= 240).await;
    assert!(second.flush(DEADLINE).await.is_settled());
    assert_eq!(second.backlog().await.expect("the backlog").live(), 0);
    assert!(second.shutdown(DEADLINE).await.is_clean());
    assert_eq!(by_key(&broker), committed, "each once, and each key in order");
}

pub(super) fn by_key(broker: &MemoryTransport) -> HashMap<String, Vec<MessageId>> {
    let mut delivered: HashMap<String, Vec<MessageId>> = HashMap::new();
    for envelope in broker.delivered() {
        delivered.entry(envelope.key.unwrap_or_default()).or_default().push(envelope.message_id);
    }
    delivered
}

/// Many keys at once, each with `each` messages, one of every key after the other.
pub(super) fn enqueue_keys<C>(
    outbox: &Outbox,
    conn: &mut C,
    keys: &[String],
    each: usize,
    committed: &mut HashMap<String, Vec<MessageId>>,
) where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    for _ in 0..each {
        let messages = keys.iter().map(|key| Message::to("accounts").key(key.as_str()));
        let ids = outbox.enqueue_all(conn, messages).expect("enqueue");
        for (key, id) in keys.iter().zip(ids) {
            committed.entry(key.clone()).or_default().push(id);
        }
    }
}

/// A thousand keys wait behind a refused message each, and the others go on, those that come later too.
async fn goes_on_beside_held_keys<C, S: Store>(mut conn: C, store: S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, broker) = (outbox_retrying_after(Duration::from_secs(2)), MemoryTransport::new());
    let held: Vec<String> = (0..1_000).map(|key| format!("held-{key}")).collect();
    let free: Vec<String> = (0..50).map(|key| format!("free-{key}")).collect();
    let (mut of_held, mut of_free) = (HashMap::new(), HashMap::new());
    enqueue_keys(&outbox, &mut conn, &held, 3, &mut of_held);
    enqueue_keys(&outbox, &mut conn, &free, 4, &mut of_free);
    let is_held = |sent: &Envelope| sent.key.as_deref().is_some_and(|key| key.starts_with("held"));
    broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), is_held);
    let relay = outbox.relay().store(store).transport(broker.clone()).start().await.expect("start");
    until("the free keys are sent", || broker.delivered().len() == 200).await;
    until("each of the others was refused", || broker.sends() >= 1_200).await;
    enqueue_keys(&outbox, &mut conn, &free, 2, &mut of_free);
    until("the free keys are sent behind them", || broker.delivered().len() == 300).await;
    assert_eq!(by_key(&broker), of_free, "each free row once, in order, and no held row");
    broker.clear_responses();
    until("the held keys go on", || broker.delivered().len() == 3_300).await;
    assert!(relay.flush(DEADLINE).await.is_settled());
    assert_eq!(relay.backlog().await.expect("the backlog").live(), 0);
    assert!(relay.shutdown(DEADLINE).await.is_clean());
    of_held.extend(of_free);
    assert_eq!(by_key(&broker), of_held, "each once, and each key in order");
}

/// Nothing is looked for within an hour, so that what is sent is what the commit hook named.
async fn is_woken_by_the_hook<C, S: Store>(mut conn: C, store: S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let hour = Duration::from_secs(3_600);
    let limits = Limits::default().poll_interval(hour).lane_lease_duration(hour * 24);
    let relay = outbox.relay().store(store).transport(broker.clone()).limits(limits).start().await.expect("start");
    until("every lane is owned", || owned(&relay) == 16).await;
    let mut committed = HashMap::new();
    for round in 1..=3 {
        enqueue(&outbox, &mut conn, &mut committed);
        until("everything is sent", || broker.delivered().len() == 60 * round).await;
    }
    assert!(relay.flush(DEADLINE).await.is_settled());
    assert_eq!(by_key(&broker), committed, "each once, and each key in order");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
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

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_goes_on_beside_a_thousand_held_keys_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let conn = PgConnection::establish(&url).expect("connect");
    goes_on_beside_held_keys(conn, PostgresStore::new(pool::<PgConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_goes_on_beside_a_thousand_held_keys_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let conn = MysqlConnection::establish(&url).expect("connect");
    goes_on_beside_held_keys(conn, MysqlStore::new(pool::<MysqlConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_goes_on_beside_a_thousand_held_keys_on_sqlite() {
    let file = SqliteFile::fresh();
    goes_on_beside_held_keys(file.connect(), SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_woken_by_the_hook_alone_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let conn = PgConnection::establish(&url).expect("connect");
    is_woken_by_the_hook(conn, PostgresStore::new(pool::<PgConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_woken_by_the_hook_alone_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let conn = MysqlConnection::establish(&url).expect("connect");
    is_woken_by_the_hook(conn, MysqlStore::new(pool::<MysqlConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_is_woken_by_the_hook_alone_on_sqlite() {
    let file = SqliteFile::fresh();
    is_woken_by_the_hook(file.connect(), SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
}
