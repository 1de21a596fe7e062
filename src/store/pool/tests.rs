//! The connections of a store over a pool that counts: here, because only a pool of our own can be slow on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel::QueryResult;
use diesel::deserialize::QueryableByName;
use diesel::pg::Pg;
use diesel::row::NamedRow;
use tokio::sync::watch;
use tokio::time::sleep;

use super::sealed::Sealed;
use super::{ConnectionPool, Connections, OpenError, Session};
use crate::limits::{ABANDONED_STATEMENT_TIMEOUT, CONNECTIONS_ABANDONED_MAX};
use crate::store::StoreError;
use crate::store::sql::dialect::Statement;

/// How long opening a connection takes, and using one.
const OPENING: Duration = Duration::from_millis(10);
const USE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Pool {
    begun: Arc<AtomicUsize>,
    finished: Arc<AtomicUsize>,
    refuses: bool,
    /// Whether loads are answered, and how many connections are open.
    server: Arc<Server>,
}

#[derive(Debug, Default)]
struct Server {
    is_silent: watch::Sender<bool>,
    open: AtomicUsize,
}

impl Server {
    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

struct FakeConnection(Arc<Server>);

impl Drop for FakeConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sealed for Pool {}

impl ConnectionPool<Pg> for Pool {
    type Session = FakeConnection;

    async fn open(&self, _within: Duration) -> Result<FakeConnection, OpenError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        sleep(OPENING).await;
        self.finished.fetch_add(1, Ordering::Relaxed);
        if self.refuses {
            return Err("refused".into());
        }
        self.server.open.fetch_add(1, Ordering::Relaxed);
        Ok(FakeConnection(Arc::clone(&self.server)))
    }
}

impl Session<Pg> for FakeConnection {
    fn disable_statement_cache(&mut self) {}

    async fn batch(&mut self, _text: Arc<str>) -> QueryResult<()> {
        sleep(USE).await;
        Ok(())
    }

    async fn begin(&mut self, _text: Arc<str>) -> QueryResult<()> {
        Ok(())
    }

    async fn load<T>(&mut self, _statement: Statement<Pg>) -> QueryResult<Vec<T>>
    where
        T: QueryableByName<Pg> + Send + 'static,
    {
        let mut is_silent = self.0.is_silent.subscribe();
        is_silent.wait_for(|is_silent| !is_silent).await.expect("the server is there");
        Ok(Vec::new())
    }

    async fn execute(&mut self, _statement: Statement<Pg>) -> QueryResult<usize> {
        Ok(0)
    }

    async fn commit(&mut self, _text: Arc<str>) -> QueryResult<()> {
        Ok(())
    }

    async fn rollback(&mut self) -> QueryResult<()> {
        Ok(())
    }
}

async fn use_connection(connections: &Connections<Pg, Pool>) {
    let mut conn = connections.acquire().await.expect("a connection");
    conn.batch(&"SELECT 1".into()).await.expect("an answer");
    conn.release();
}

/// Calls in pairs often get each other's connections while a new one is being opened.
#[tokio::test(start_paused = true)]
async fn an_abandoned_opening_is_not_wasted() {
    let pool = Pool::default();
    let (begun, finished) = (Arc::clone(&pool.begun), Arc::clone(&pool.finished));
    let connections = Connections::new(pool, None);
    for _ in 0..100 {
        tokio::join!(use_connection(&connections), use_connection(&connections));
        sleep(USE / 2).await;
    }
    assert_eq!(begun.load(Ordering::Relaxed), 2, "as many as there are calls at once");
    assert_eq!(finished.load(Ordering::Relaxed), 2, "no call was cut off");
}

#[tokio::test(start_paused = true)]
async fn many_calls_open_one_connection_at_a_time() {
    let pool = Pool::default();
    let (begun, finished) = (Arc::clone(&pool.begun), Arc::clone(&pool.finished));
    let connections = Arc::new(Connections::new(pool, None));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let connections = Arc::clone(&connections);
            tokio::spawn(async move { use_connection(&connections).await })
        })
        .collect();
    sleep(OPENING / 2).await;
    assert_eq!((begun.load(Ordering::Relaxed), finished.load(Ordering::Relaxed)), (1, 0));
    for call in calls {
        call.await.expect("the call ends");
    }
    assert!(begun.load(Ordering::Relaxed) < 10, "{begun:?} connections for 50 short calls");
}

#[tokio::test(start_paused = true)]
async fn a_failed_opening_is_the_error_of_the_call_that_asked_for_it() {
    let connections = Connections::<Pg, _>::new(Pool { refuses: true, ..Pool::default() }, None);
    let error = connections.acquire().await.expect_err("the pool refuses");
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}

struct Empty;

impl QueryableByName<Pg> for Empty {
    fn build<'a>(_row: &impl NamedRow<'a, Pg>) -> diesel::deserialize::Result<Self> {
        Ok(Self)
    }
}

/// Makes calls at once, each of a second.
async fn calls(connections: &Connections<Pg, Pool>, count: usize) -> usize {
    let call = || async { connections.load::<Empty>(Statement::new(&"SELECT 1".into(), [])).await.is_ok() };
    let answered = futures_util::future::join_all((0..count).map(|_| call())).await;
    answered.into_iter().filter(|is_ok| *is_ok).count()
}

/// A server that does not answer gets no more connections from a store, however many of its calls are abandoned.
#[tokio::test(start_paused = true)]
async fn an_abandoned_call_keeps_its_place_in_the_pool() {
    const CALLS: usize = 6;
    let pool = Pool::default();
    let server = Arc::clone(&pool.server);
    let connections = Connections::new(pool, None).with_deadline(Duration::from_secs(1));
    server.is_silent.send_replace(true);
    for _ in 0..300 {
        assert_eq!(calls(&connections, CALLS).await, 0);
        assert!(server.open() < CALLS + CONNECTIONS_ABANDONED_MAX, "{} connections", server.open());
    }
    server.is_silent.send_replace(false);
    assert_eq!(calls(&connections, CALLS).await, CALLS, "all calls succeed again");
    assert!(server.open() <= CALLS, "abandoned connections are closed: {}", server.open());
}

/// As with a firewall that has dropped the connections: no answer comes, and the server ended its side long ago.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_server_with_a_timeout_is_bounded() {
    let pool = Pool::default();
    let server = Arc::clone(&pool.server);
    let connections = Connections::new(pool, Some("SET time-outs".into())).with_deadline(Duration::from_secs(1));
    server.is_silent.send_replace(true);
    for _ in 0..2 {
        assert_eq!(calls(&connections, CONNECTIONS_ABANDONED_MAX).await, 0);
        assert_eq!(server.open(), CONNECTIONS_ABANDONED_MAX);
    }
    sleep(ABANDONED_STATEMENT_TIMEOUT).await;
    assert_eq!(server.open(), 0);
}
