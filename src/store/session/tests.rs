//! The connections of a store over a pool that counts: here, because only a pool of our own can be slow on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel::QueryResult;
use diesel::deserialize::QueryableByName;
use diesel::pg::Pg;
use tokio::time::sleep;

use super::sealed::Sealed;
use super::{Connections, OpenError, Session, Sessions};
use crate::store::StoreError;
use crate::store::statement::Statement;

/// How long the pool takes to open a connection, and a call to use one.
const OPENING: Duration = Duration::from_millis(10);
const USE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Pool {
    begun: Arc<AtomicUsize>,
    finished: Arc<AtomicUsize>,
    refuses: bool,
}

struct Nothing;

impl Sealed for Pool {}

impl Sessions<Pg> for Pool {
    type Session = Nothing;

    async fn open(&self, _within: Duration) -> Result<Nothing, OpenError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        sleep(OPENING).await;
        self.finished.fetch_add(1, Ordering::Relaxed);
        if self.refuses { Err("refused".into()) } else { Ok(Nothing) }
    }
}

impl Session<Pg> for Nothing {
    fn keep_nothing_prepared(&mut self) {}

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

async fn use_one(connections: &Connections<Pg, Pool>) {
    let mut lease = connections.lease().await.expect("a connection");
    lease.batch(&"SELECT 1".into()).await.expect("an answer");
    lease.give_back();
}

/// Calls that come in twos are often served by each other's connections while a new one is being opened.
#[tokio::test(start_paused = true)]
async fn an_opening_that_nobody_waits_for_any_more_is_not_thrown_away() {
    let pool = Pool::default();
    let (begun, finished) = (Arc::clone(&pool.begun), Arc::clone(&pool.finished));
    let connections = Connections::new(pool, None);
    for _ in 0..100 {
        tokio::join!(use_one(&connections), use_one(&connections));
        sleep(USE / 2).await;
    }
    assert_eq!(begun.load(Ordering::Relaxed), 2, "as many as there are calls at once");
    assert_eq!(finished.load(Ordering::Relaxed), 2, "none was cut off");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_calls_opens_one_connection_at_a_time() {
    let pool = Pool::default();
    let (begun, finished) = (Arc::clone(&pool.begun), Arc::clone(&pool.finished));
    let connections = Arc::new(Connections::new(pool, None));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let connections = Arc::clone(&connections);
            tokio::spawn(async move { use_one(&connections).await })
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
    let error = connections.lease().await.expect_err("the pool refuses");
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}
