//! Delayed messages on each database: sent in their time by a relay that never polls, across restarts, and taken back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::admin::AdminError;
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Limits, MessageId, Outbox, OutboxBackend};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};
use super::{order, outbox};

const DEADLINE: Duration = Duration::from_secs(60);
const MESSAGES: usize = 200;
/// They fall due one after the other, so far apart.
const APART: Duration = Duration::from_millis(15);
/// The first is due when all are enqueued.
const AHEAD: Duration = Duration::from_millis(1_500);
/// Above what a busy machine takes, and far below any poll.
const LATE_MAX: Duration = Duration::from_secs(1);

/// A relay that would look once an hour, if nothing were due before.
async fn start(outbox: &Outbox, store: impl Store, broker: &MemoryTransport) -> Relay {
    let limits = Limits::default().poll_interval(Duration::from_secs(3_600));
    outbox.relay().store(store).transport(broker.clone()).limits(limits).start().await.expect("start")
}

/// When each message was delivered.
async fn deliveries(broker: &MemoryTransport, count: usize) -> HashMap<MessageId, Instant> {
    let (end, mut seen) = (Instant::now() + DEADLINE, HashMap::new());
    while seen.len() < count {
        assert!(Instant::now() < end, "{} of {count} in {DEADLINE:?}", seen.len());
        let at = Instant::now();
        for envelope in broker.delivered() {
            seen.entry(envelope.message_id).or_insert(at);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    seen
}

async fn are_sent_in_time<C, S: Store>(mut conn: C, store: impl Fn() -> S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, broker) = (outbox(), MemoryTransport::new());
    let relay = start(&outbox, store(), &broker).await;
    let began = Instant::now();
    let mut due = HashMap::new();
    // The last one first, so that each is nearer than what the poller knows of.
    for place in (0..MESSAGES).rev() {
        let delay = (AHEAD + APART * place as u32).saturating_sub(began.elapsed());
        let id = outbox.enqueue(&mut conn, &order(1).delay(delay)).expect("enqueue");
        due.insert(id, (Instant::now(), began + AHEAD + APART * place as u32));
    }
    let seen = deliveries(&broker, MESSAGES).await;
    let mut late: Vec<Duration> = Vec::new();
    for (id, at) in seen {
        let (enqueued_at, due_at) = due[&id];
        // A delay counts from the INSERT and in whole milliseconds.
        let not_before = due_at - Duration::from_millis(2);
        assert!(at >= not_before || enqueued_at > due_at, "{:?} too early", due_at - at);
        late.push(at.saturating_duration_since(due_at.max(enqueued_at)));
    }
    late.sort_unstable();
    let (p50, p99) = (late[MESSAGES / 2], late[MESSAGES * 99 / 100]);
    assert!(p50 < LATE_MAX, "late by {p50:?} (p50), {p99:?} (p99), {:?} (max)", late[MESSAGES - 1]);
    survives_a_restart_and_can_be_taken_back(conn, store, outbox, relay, broker).await;
}

async fn survives_a_restart_and_can_be_taken_back<C, S: Store>(
    mut conn: C,
    store: impl Fn() -> S,
    outbox: Outbox,
    relay: Relay,
    broker: MemoryTransport,
) where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let soon = outbox.enqueue(&mut conn, &order(2).delay(Duration::from_secs(1))).expect("enqueue");
    let later = outbox.enqueue(&mut conn, &order(3).delay(Duration::from_secs(3_600))).expect("enqueue");
    assert!(relay.shutdown(DEADLINE).await.is_clean(), "a row that is not due is left to no one");
    let relay = start(&outbox, store(), &broker).await;
    deliveries(&broker, MESSAGES + 1).await;
    assert_eq!(broker.delivered().last().map(|envelope| envelope.message_id), Some(soon));
    let admin = outbox.admin(store());
    assert!(relay.flush(DEADLINE).await.is_settled());
    let end = Instant::now() + DEADLINE;
    while relay.backlog().await.expect("the backlog").live() > 1 {
        assert!(Instant::now() < end, "the row that was sent is still there");
    }
    admin.cancel_delayed(later).await.expect("cancel");
    for gone in [later, soon, MessageId::new()] {
        let error = admin.cancel_delayed(gone).await.expect_err("gone");
        assert!(matches!(error, AdminError::NotDelayed { .. }), "{error}");
    }
    assert_eq!(relay.backlog().await.expect("the backlog").live(), 0);
    assert!(relay.shutdown(DEADLINE).await.is_clean());
    let id = outbox.enqueue(&mut conn, &order(4).delay(Duration::from_secs(3_600))).expect("enqueue");
    let store = store();
    let cancelling = std::thread::spawn(move || {
        let admin = outbox.admin(store).blocking().expect("a runtime");
        admin.run(async |admin| admin.cancel_delayed(id).await).expect("cancel");
    });
    cancelling.join().expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_are_sent_in_time_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let conn = PgConnection::establish(&url).expect("connect");
    are_sent_in_time(conn, || PostgresStore::new(pool::<PgConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_are_sent_in_time_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let conn = MysqlConnection::establish(&url).expect("connect");
    are_sent_in_time(conn, || MysqlStore::new(pool::<MysqlConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delayed_messages_are_sent_in_time_on_sqlite() {
    let file = SqliteFile::fresh();
    are_sent_in_time(file.connect(), || SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
}
