//! A relay and an application on one pool. A store keeps its connections. Before it left one free, a small pool had none for the
//! application after one burst.

use std::time::{Duration, Instant};

use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::Outbox;
use diesel_outbox::relay::{Relay, StartError};
use diesel_outbox::store::{OutboxStore, PostgresStore};
use diesel_outbox::transport::MemoryTransport;
use tokio::time::timeout;

use super::databases::{fresh_postgres, pool};
use super::logged::Log;
use super::{order, outbox};

const DEADLINE: Duration = Duration::from_secs(60);
/// The connections that a relay with one transport uses at once, and those that it needs at least.
const CALLS: usize = 6;
const NEEDED: usize = 4;
const TASKS: usize = 40;
const EACH: i64 = 25;

type Deadpool = deadpool::Pool<AsyncPgConnection>;

fn manager(url: &str) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(url)
}

fn deadpool(url: &str, size: usize) -> Deadpool {
    deadpool::Pool::builder(manager(url)).max_size(size).build().expect("a pool")
}

/// Runs many tasks that take a connection for each transaction.
async fn burst(outbox: &Outbox, pool: &Deadpool) {
    let tasks = (0..TASKS).map(|_| {
        let (outbox, pool) = (outbox.clone(), pool.clone());
        tokio::spawn(async move {
            for key in 0..EACH {
                let mut conn = pool.get().await.expect("a connection");
                conn.transaction(async |conn| outbox.enqueue_async(conn, &order(key)).await).await.expect("enqueue");
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        timeout(DEADLINE, task).await.expect("the application is starved").expect("no panic");
    }
}

async fn start(outbox: &Outbox, pool: &Deadpool, broker: &MemoryTransport) -> Result<Relay, StartError> {
    outbox.relay().store(PostgresStore::new(pool.clone())).transport(broker.clone()).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_pool_for_both_starves_neither() {
    starves_neither(CALLS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smallest_pool_for_both_starves_neither() {
    starves_neither(NEEDED).await;
}

/// The application always gets a connection in the end.
async fn starves_neither(size: usize) {
    let Some(url) = fresh_postgres() else { return };
    let (outbox, pool, broker) = (outbox(), deadpool(&url, size), MemoryTransport::new());
    let relay = start(&outbox, &pool, &broker).await.expect("start");
    let messages = TASKS * usize::try_from(EACH).expect("few");
    for bursts in 1..=3 {
        burst(&outbox, &pool).await;
        broker.wait_for_delivered(bursts * messages, DEADLINE).await.expect("all arrive");
        let began = Instant::now();
        let conn = timeout(DEADLINE, pool.get()).await.expect("the application is starved").expect("a connection");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        drop(conn);
    }
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// The log has a warning.
#[tokio::test]
async fn a_pool_that_others_use_is_warned_about_once() {
    let Some(url) = fresh_postgres() else { return };
    let (log, _logging) = Log::begin();
    let warnings = || log.times("others use the pool of the relay's store");
    let (outbox, pool, broker) = (outbox(), deadpool(&url, CALLS), MemoryTransport::new());
    let held = pool.get().await.expect("a connection");
    let relay = start(&outbox, &pool, &broker).await.expect("start");
    let end = Instant::now() + DEADLINE;
    while warnings() == 0 {
        assert!(Instant::now() < end, "no warning is logged: {}", log.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    burst(&outbox, &pool).await;
    assert_eq!(warnings(), 1);
    drop(held);
    assert!(relay.shutdown(DEADLINE).await.is_clean());

    let (log, _logging) = Log::begin();
    let (own, application) = (deadpool(&url, CALLS), deadpool(&url, CALLS));
    let relay = start(&outbox, &own, &broker).await.expect("start");
    burst(&outbox, &application).await;
    assert!(outbox.flush(DEADLINE).await.is_settled());
    assert_eq!(log.times("others use the pool of the relay's store"), 0, "{}", log.text());
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

async fn is_refused(store: impl OutboxStore, has: usize, needs: usize) {
    let error = outbox().relay().store(store).transport(MemoryTransport::new()).start().await.expect_err("too few");
    assert!(matches!(error, StartError::PoolTooSmall { .. }), "{error:?}");
    let text = error.to_string();
    let numbers = [format!("at most {has} connections"), format!("needs {needs}"), format!("max_size({needs})")];
    assert!(numbers.iter().all(|number| text.contains(number)), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_too_small_is_refused_with_both_numbers() {
    let Some(url) = fresh_postgres() else { return };
    is_refused(PostgresStore::new(deadpool(&url, 3)), 3, NEEDED).await;
    let bb8 = bb8::Pool::builder().max_size(2).build_unchecked(manager(&url));
    is_refused(PostgresStore::new(bb8), 2, NEEDED).await;
    let mobc = mobc::Pool::builder().max_open(3).build(manager(&url));
    is_refused(PostgresStore::new(mobc), 3, NEEDED).await;
    let small = diesel::r2d2::Pool::builder().max_size(1).min_idle(Some(0));
    let small = small.build_unchecked(diesel::r2d2::ConnectionManager::<diesel::PgConnection>::new(&url));
    is_refused(PostgresStore::new(small), 1, NEEDED).await;
    // Enough of it.
    let store = PostgresStore::new(pool::<diesel::PgConnection>(&url));
    let relay = outbox().relay().store(store).transport(MemoryTransport::new()).start().await.expect("start");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}
