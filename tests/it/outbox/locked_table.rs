//! Somebody holds a table locked for long. Meanwhile relays have no more server connections than their pools allow, including those of
//! abandoned calls. Afterwards all messages are sent.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use diesel::connection::LoadConnection;
use diesel::mysql::{Mysql, MysqlConnection};
use diesel::pg::{Pg, PgConnection};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool};
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::{Relay, StoreStatus};
use diesel_outbox::store::{ConnectionPool, MysqlStore, PostgresStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Limits, MessageId, Outbox, OutboxBackend};

use super::databases::{fresh_mariadb, fresh_postgres, pool};
use super::{order, outbox};

/// Of each call: while the table is held, many of them are over.
const DEADLINE: Duration = Duration::from_secs(1);
const LOCK_DURATION: Duration = Duration::from_secs(5);
/// How long the server may report a connection that is closed: 20 ms were too few beside builds.
const CLOSING_MAX: Duration = Duration::from_millis(500);
/// The size of each relay's pool.
const PLACES: usize = 6;
const TIMEOUT: Duration = Duration::from_secs(60);

/// How a server reports its connections, and how its table is locked.
trait LockableTable: LoadConnection + Sized + Send + 'static {
    /// The server's connections to this database.
    const CONNECTIONS: &'static str;
    const LOCK: &'static str;
    const UNLOCK: &'static str;
    const READ: &'static str;

    fn connections(&mut self) -> HashSet<i64>;
}

#[derive(QueryableByName)]
struct Connected {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

impl LockableTable for PgConnection {
    const CONNECTIONS: &'static str =
        "SELECT pid::bigint AS id FROM pg_stat_activity WHERE datname = current_database()";
    const LOCK: &'static str = "BEGIN; LOCK TABLE outbox_messages IN ACCESS EXCLUSIVE MODE";
    const UNLOCK: &'static str = "COMMIT";
    const READ: &'static str = "BEGIN; SELECT count(*) FROM outbox_messages";

    fn connections(&mut self) -> HashSet<i64> {
        let found: Vec<Connected> = diesel::sql_query(Self::CONNECTIONS).load(self).expect("connections");
        found.into_iter().map(|connected| connected.id).collect()
    }
}

impl LockableTable for MysqlConnection {
    const CONNECTIONS: &'static str =
        "SELECT CAST(id AS SIGNED) AS id FROM information_schema.processlist WHERE db = DATABASE()";
    const LOCK: &'static str = "LOCK TABLES outbox_messages WRITE";
    const UNLOCK: &'static str = "UNLOCK TABLES; COMMIT";
    const READ: &'static str = "START TRANSACTION; SELECT count(*) FROM outbox_messages";

    fn connections(&mut self) -> HashSet<i64> {
        let found: Vec<Connected> = diesel::sql_query(Self::CONNECTIONS).load(self).expect("connections");
        found.into_iter().map(|connected| connected.id).collect()
    }
}

fn pg_deadpool(url: &str) -> impl Store + use<> {
    pg(deadpool::Pool::<AsyncPgConnection>::builder(AsyncDieselConnectionManager::new(url))
        .max_size(PLACES)
        .build()
        .expect("a pool"))
}

fn pg_r2d2(url: &str) -> impl Store + use<> {
    pg(pool::<PgConnection>(url))
}

fn pg<P: ConnectionPool<Pg>>(pool: P) -> PostgresStore<P> {
    PostgresStore::new(pool).statement_timeout(DEADLINE)
}

fn maria_deadpool(url: &str) -> impl Store + use<> {
    maria(
        deadpool::Pool::<AsyncMysqlConnection>::builder(AsyncDieselConnectionManager::new(url))
            .max_size(PLACES)
            .build()
            .expect("a pool"),
    )
}

fn maria_r2d2(url: &str) -> impl Store + use<> {
    maria(pool::<MysqlConnection>(url))
}

fn maria<P: ConnectionPool<Mysql>>(pool: P) -> MysqlStore<P> {
    MysqlStore::new(pool).statement_timeout(DEADLINE)
}

async fn relay(outbox: &Outbox, store: impl Store, broker: &MemoryTransport) -> Relay {
    let limits = Limits::default().poll_interval(Duration::from_millis(20));
    let relay = outbox.relay().limits(limits).store(store).transport(broker.clone());
    relay.start().await.expect("start")
}

async fn delivered(broker: &MemoryTransport, messages: &[MessageId]) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let there: HashSet<_> = broker.delivered().iter().map(|envelope| envelope.message_id).collect();
        if messages.iter().all(|message| there.contains(message)) {
            return;
        }
        assert!(Instant::now() < end, "{} of {} messages after {TIMEOUT:?}", there.len(), messages.len());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The most connections of others at once during `LOCK_DURATION`. The server reports a closed one for a moment longer, so only those
/// count that have been there for a while. One of an abandoned call stays until the server ends its statement, which takes longer.
async fn most_connections<C: LockableTable>(side: &mut C, ours: &HashSet<i64>) -> usize {
    let end = Instant::now() + LOCK_DURATION;
    let (mut most, mut since) = (0, HashMap::<i64, Instant>::new());
    while Instant::now() < end {
        let (there, now) = (side.connections(), Instant::now());
        since.retain(|connection, _| there.contains(connection));
        for connection in there.difference(ours) {
            since.entry(*connection).or_insert(now);
        }
        most = most.max(since.values().filter(|since| now.duration_since(**since) >= CLOSING_MAX).count());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    most
}

#[derive(Clone, Copy)]
enum Wait {
    /// Somebody has the table.
    Locked,
    /// An ALTER TABLE waits for somebody who reads, and everybody else behind it.
    QueuedAlter,
}

async fn stays_within_its_pool<C, S>(url: Option<String>, store: impl Fn(&str) -> S, relays: usize, wait: Wait)
where
    C: LockableTable,
    C::Backend: OutboxBackend<C>,
    S: Store,
{
    let Some(url) = url else { return };
    let connect = || C::establish(&url).expect("connect");
    let (mut side, mut holder, mut changer, mut shop) = (connect(), connect(), connect(), connect());
    let ours = side.connections();
    let (broker, mut outboxes, mut running) = (MemoryTransport::new(), Vec::new(), Vec::new());
    for _ in 0..relays {
        let outbox = outbox();
        running.push(relay(&outbox, store(&url), &broker).await);
        outboxes.push(outbox);
    }
    // Their settles, and what the broker has not seen, meet the lock.
    let mut messages: Vec<_> =
        (0..100).map(|key| outboxes[0].enqueue(&mut shop, &order(key)).expect("enqueue")).collect();
    holder.batch_execute(if matches!(wait, Wait::Locked) { C::LOCK } else { C::READ }).expect("hold the table");
    let change = matches!(wait, Wait::QueuedAlter).then(|| {
        std::thread::spawn(move || changer.batch_execute("ALTER TABLE outbox_messages ADD COLUMN note integer"))
    });
    let most = most_connections(&mut side, &ours).await;
    assert!((1..=relays * PLACES).contains(&most), "{most} connections of {relays} relays with {PLACES} each");

    holder.batch_execute(C::UNLOCK).expect("let go");
    if let Some(change) = change {
        change.join().expect("no panic").expect("the table is changed");
    }
    messages.extend((0..100).map(|key| outboxes[0].enqueue(&mut shop, &order(key)).expect("enqueue")));
    delivered(&broker, &messages).await;
    for relay in running {
        let end = Instant::now() + TIMEOUT;
        while relay.status().store != StoreStatus::Up {
            assert!(Instant::now() < end, "{:?}", relay.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(relay.shutdown(TIMEOUT).await.is_clean());
    }
}

/// Makes each line a test: a database, a pool, how many relays, and what they wait for.
macro_rules! locked_table_tests {
    ($($name:ident: $conn:ty, $fresh:ident, $store:ident, $relays:literal, $wait:ident;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                stays_within_its_pool::<$conn, _>($fresh(), $store, $relays, Wait::$wait).await;
            }
        )+
    };
}

locked_table_tests! {
    postgres_locked_one_relay: PgConnection, fresh_postgres, pg_deadpool, 1, Locked;
    postgres_locked_three_relays: PgConnection, fresh_postgres, pg_deadpool, 3, Locked;
    postgres_queued_alter_three_relays: PgConnection, fresh_postgres, pg_deadpool, 3, QueuedAlter;
    postgres_locked_one_relay_r2d2: PgConnection, fresh_postgres, pg_r2d2, 1, Locked;
    postgres_queued_alter_three_relays_r2d2: PgConnection, fresh_postgres, pg_r2d2, 3, QueuedAlter;
    mariadb_locked_one_relay: MysqlConnection, fresh_mariadb, maria_deadpool, 1, Locked;
    mariadb_queued_alter_three_relays: MysqlConnection, fresh_mariadb, maria_deadpool, 3, QueuedAlter;
    mariadb_queued_alter_three_relays_r2d2: MysqlConnection, fresh_mariadb, maria_r2d2, 3, QueuedAlter;
}
