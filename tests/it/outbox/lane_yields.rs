//! A node that its broker cannot be reached from leaves its lanes to another, sleeps, and joins again: on each database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::{FailureClass, MemoryTransport, Outcome, OutcomeSender, Transport, TransportError};
use diesel_outbox::{Envelope, Limits, OutboxBackend, Topic};

use super::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};
use super::ordered_relay::{by_key, enqueue_keys, outbox, owned, until};

const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_secs(1);
const YIELD: Duration = Duration::from_secs(2);
const SLEEP: Duration = Duration::from_secs(5);
/// What a busy machine takes beyond a bound.
const BUSY: Duration = Duration::from_secs(5);

/// One node's way to a broker that others reach by their own.
#[derive(Debug, Clone)]
struct CuttableTransport {
    broker: MemoryTransport,
    is_cut: Arc<AtomicBool>,
    sends: Arc<AtomicUsize>,
}

impl CuttableTransport {
    fn to(broker: &MemoryTransport) -> Self {
        Self { broker: broker.clone(), is_cut: Arc::default(), sends: Arc::default() }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
    }

    /// Messages that came through.
    fn sends(&self) -> usize {
        self.sends.load(Ordering::Acquire)
    }

    fn is_whole(&self) -> Result<(), TransportError> {
        let is_cut = self.is_cut.load(Ordering::Acquire);
        let cut = || TransportError::new(FailureClass::Connection, std::io::Error::other("as the test says"));
        if is_cut { Err(cut()) } else { Ok(()) }
    }
}

#[async_trait]
impl Transport for CuttableTransport {
    fn delivery_timeout(&self) -> Duration {
        self.broker.delivery_timeout()
    }

    async fn prepare(&self, _topics: &[Topic]) -> Result<(), TransportError> {
        self.is_whole()
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        if let Err(error) = self.is_whole() {
            return sender.complete(Outcome::Failed(error));
        }
        self.sends.fetch_add(1, Ordering::AcqRel);
        self.broker.send(envelope, sender);
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.is_whole()
    }

    async fn flush(&self, within: Duration) -> usize {
        self.broker.flush(within).await
    }
}

/// Whom a relay believes to own every lane, and among how many nodes they are shared.
fn sees_owner(relay: &Relay, owner: &Relay) -> bool {
    let (lanes, node) = (relay.status().lanes, owner.status().node);
    lanes.len() == 16 && lanes.iter().all(|lane| lane.owner == Some(node) && lane.nodes == 1)
}

fn asleep(relay: &Relay) -> Vec<String> {
    relay.status().asleep_topics.iter().map(ToString::to_string).collect()
}

async fn a_node_without_its_broker_yields<C, S: Store>(mut conn: C, store: impl Fn() -> S)
where
    C: Connection,
    C::Backend: OutboxBackend<C>,
{
    let (here, there, broker) = (outbox(), outbox(), MemoryTransport::new());
    let wire = CuttableTransport::to(&broker);
    let limits = Limits::default().poll_interval(POLL).lane_yield_duration(YIELD).lane_sleep_duration(SLEEP);
    let first = here.relay().store(store()).transport(broker.clone()).limits(limits.clone());
    let first = first.start().await.expect("start");
    let second = there.relay().store(store()).transport(wire.clone()).limits(limits).start().await.expect("start");
    until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    let keys: Vec<String> = (0..40).map(|key| key.to_string()).collect();
    let mut committed = HashMap::new();
    enqueue_keys(&here, &mut conn, &keys, 3, &mut committed);
    until("both send", || broker.delivered().len() == 120 && wire.sends() > 0).await;

    wire.cut(true);
    let cut = Instant::now();
    enqueue_keys(&here, &mut conn, &keys, 3, &mut committed);
    until("one owns all", || owned(&first) == 16 && owned(&second) == 0).await;
    // It sees at a poll that it cannot send, at another that this lasts, and at a third the other sees what is free.
    assert!(cut.elapsed() < YIELD + POLL * 3 + BUSY, "{:?}", cut.elapsed());
    until("what waited is sent", || broker.delivered().len() == 240).await;
    until("both say who owns what", || sees_owner(&first, &first) && sees_owner(&second, &first)).await;
    assert_eq!(asleep(&second), ["accounts"]);
    assert_eq!(asleep(&first), [""; 0]);
    let before = wire.sends();
    enqueue_keys(&here, &mut conn, &keys, 3, &mut committed);
    until("messages flow without it", || broker.delivered().len() == 360).await;
    assert_eq!(wire.sends(), before);

    wire.cut(false);
    let mended = Instant::now();
    until("it is back", || owned(&first) == 8 && owned(&second) == 8).await;
    // It may have fallen asleep anew right before; then it joins, the other lets go, and it takes.
    assert!(mended.elapsed() < SLEEP + POLL * 3 + BUSY, "{:?}", mended.elapsed());
    assert_eq!(asleep(&second), [""; 0]);
    enqueue_keys(&here, &mut conn, &keys, 3, &mut committed);
    until("both send again", || broker.delivered().len() == 480 && wire.sends() > before).await;
    for relay in [first, second] {
        assert!(relay.flush(DEADLINE).await.is_settled());
        assert!(relay.shutdown(DEADLINE).await.is_clean());
    }
    assert_eq!(by_key(&broker), committed, "each once, and each key in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_broker_yields_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let conn = PgConnection::establish(&url).expect("connect");
    a_node_without_its_broker_yields(conn, || PostgresStore::new(pool::<PgConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_broker_yields_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let conn = MysqlConnection::establish(&url).expect("connect");
    a_node_without_its_broker_yields(conn, || MysqlStore::new(pool::<MysqlConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_broker_yields_on_sqlite() {
    let file = SqliteFile::fresh();
    a_node_without_its_broker_yields(file.connect(), || SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
}
