//! How many connections the server has of a store while calls are abandoned, whatever they wait for.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::Connection as _;
use diesel::pg::{Pg, PgConnection};
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{Locking, PollSpec, RowKey, Store};
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::{ConnectionPool, PostgresStore};
use xtask::servers::{Postgres, Stopped, postgres};
use xtask::test_servers;

use super::connections::NamedStore;
use crate::store::eventually;
use crate::store::spec;

const DEADLINE: Duration = Duration::from_millis(300);
const OBSERVED_FOR: Duration = Duration::from_secs(4);
const POOL_SIZE: usize = 6;
/// More concurrent calls than the pool has places.
const CALLERS: usize = 8;
/// How long a connection that its client has closed may remain: on a busy machine its process ends late. What a call leaves behind
/// remains for as long as the lock.
const CLOSING_MAX: Duration = Duration::from_millis(500);
/// The connection of a cancel request.
const CANCEL_CONNECTIONS: usize = 1;

fn manager(url: &str) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(url)
}

fn r2d2(url: &str) -> R2d2Pool<ConnectionManager<PgConnection>> {
    let pool = R2d2Pool::builder().max_size(u32::try_from(POOL_SIZE).expect("few")).min_idle(Some(0));
    pool.build(ConnectionManager::new(url)).expect("a pool")
}

fn deadpool(url: &str) -> deadpool::Pool<AsyncPgConnection> {
    deadpool::Pool::builder(manager(url)).max_size(POOL_SIZE).build().expect("a pool")
}

fn bb8(url: &str) -> bb8::Pool<AsyncPgConnection> {
    bb8::Pool::builder().max_size(u32::try_from(POOL_SIZE).expect("few")).build_unchecked(manager(url))
}

fn mobc(url: &str) -> mobc::Pool<AsyncPgConnection> {
    mobc::Pool::builder().max_open(u64::try_from(POOL_SIZE).expect("few")).build(manager(url))
}

/// Runs calls continuously, some in transactions and some not, during `meanwhile`.
async fn with_callers<P: ConnectionPool<Pg>, T>(store: PostgresStore<P>, meanwhile: impl Future<Output = T>) -> T {
    let store = Arc::new(store.statement_timeout(DEADLINE));
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let rows = [RowKey { id: 1, message_id: MessageId::new() }];
                loop {
                    // The result does not matter.
                    let _ = match number % 4 {
                        0 => match store.claim(&spec()).await {
                            Ok(claim) => claim.handle.close(&[], &[]).await.map(drop),
                            Err(error) => Err(error),
                        },
                        1 => store.poll(&PollSpec::everything(["orders".into()])).await.map(drop),
                        2 => store.settle(&rows, Locking::Wait).await.map(drop),
                        _ => store.backlog(10).await.map(drop),
                    };
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let result = meanwhile.await;
    for caller in &callers {
        caller.abort();
    }
    result
}

/// The most at once of those that `observe` sees for longer than `CLOSING_MAX`, during `OBSERVED_FOR`. It must see some.
async fn most<T: Hash + Eq>(mut observe: impl FnMut() -> HashSet<T>) -> usize {
    let end = Instant::now() + OBSERVED_FOR;
    let (mut most, mut since, mut is_any_seen) = (0, HashMap::new(), false);
    while Instant::now() < end {
        let now = Instant::now();
        let seen = observe().into_iter();
        since = seen.map(|one| since.remove_entry(&one).unwrap_or((one, now))).collect();
        is_any_seen |= !since.is_empty();
        most = most.max(since.values().filter(|since| now.duration_since(**since) > CLOSING_MAX).count());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_any_seen, "nobody is connected");
    most
}

async fn a_locked_table(test: NamedStore<impl ConnectionPool<Pg>>) {
    let NamedStore { inner, name } = test;
    let lock = inner.begin("LOCK TABLE {m} IN ACCESS EXCLUSIVE MODE");
    let control = inner.control;
    let backends = || -> HashSet<i32> {
        let sql = format!("SELECT pid AS number FROM pg_stat_activity WHERE application_name = '{name}'");
        super::under_test::numbers(&control, &sql).into_iter().collect()
    };
    let most = with_callers(inner.store, most(backends)).await;
    assert!(most <= POOL_SIZE, "{most} backends of a pool of {POOL_SIZE}");
    drop(lock);
    eventually("they all end", || backends().is_empty().then_some(())).await;
}

mod a_locked_table {
    macro_rules! over {
        ($($pool:ident),+) => {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $pool() {
                    if let Some(test) = super::NamedStore::open(super::$pool) {
                        super::a_locked_table(test).await;
                    }
                }
            )+
        };
    }
    over!(r2d2, deadpool, bb8, mobc);
}

/// A frozen server cannot be asked. The kernel reports which connections it still has to serve, including those it has not accepted
/// yet.
fn connections_at(port: u16) -> HashSet<String> {
    let ends = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let mut found = HashSet::new();
    for line in ends.iter().flat_map(|text| text.lines()) {
        let fields: Vec<_> = line.split_whitespace().collect();
        if let [_, local, remote, state, ..] = *fields
            && local.ends_with(&format!(":{port:04X}"))
            && matches!(state, "01" | "08")
        {
            found.insert(remote.to_owned());
        }
    }
    found
}

async fn a_stopped_server<P: ConnectionPool<Pg>>(pool: impl FnOnce(&str) -> P) {
    let Some(server) = test_servers::own_or_skip(Postgres::start(&postgres::Options::default())) else { return };
    let mut conn = PgConnection::establish(&server.url()).expect("connect");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    let ours = connections_at(server.port());
    let store = PostgresStore::new(pool(&server.url()));
    let others = || connections_at(server.port()).difference(&ours).cloned().collect::<HashSet<_>>();
    let port = server.port();
    let stopped = async {
        eventually("all places are taken", || (others().len() >= POOL_SIZE).then_some(())).await;
        let _stopped = Stopped::of(server.pid().expect("it runs")).expect("stopped");
        most(others).await
    };
    let most = with_callers(store, stopped).await;
    assert!(most <= POOL_SIZE + CANCEL_CONNECTIONS, "{most} connections of a pool of {POOL_SIZE}");
    eventually("they all end", || (connections_at(port).len() <= ours.len()).then_some(())).await;
}

mod a_stopped_server {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn deadpool() {
        super::a_stopped_server(super::deadpool).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn r2d2() {
        super::a_stopped_server(super::r2d2).await;
    }
}
