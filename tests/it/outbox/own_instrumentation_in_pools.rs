//! The one line that each pool wants where the application has an instrumentation of its own: the commit hook is put before it
//! when a connection is made, and both see every COMMIT of every connection that the pool hands out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::ConnectionResult;
use diesel::connection::{Instrumentation, InstrumentationEvent};
use diesel::prelude::*;
use diesel::r2d2::{self, ConnectionManager, CustomizeConnection};
use diesel::result::{Error, QueryResult};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig, bb8, deadpool, mobc};
use diesel_async::{AsyncConnection, AsyncPgConnection};
use diesel_outbox::{AsyncOutboxBackend, MessageId, Outbox, TestHook};

use super::databases::fresh_postgres;
use super::{handed_over, order, outbox};

/// The application's: counts COMMITs.
#[derive(Debug, Clone, Default)]
struct Commits(Arc<AtomicUsize>);

impl Commits {
    fn instrumentation(&self) -> impl Instrumentation + use<> {
        let seen = Arc::clone(&self.0);
        move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::CommitTransaction { .. } = event {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn seen(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Instrumented {
    outbox: Outbox,
    commits: Commits,
}

impl<E> CustomizeConnection<PgConnection, E> for Instrumented {
    fn on_acquire(&self, conn: &mut PgConnection) -> Result<(), E> {
        conn.set_instrumentation(self.outbox.commit_hook().chain(self.commits.instrumentation()));
        Ok(())
    }
}

#[test]
fn r2d2_on_acquire() {
    let Some(url) = fresh_postgres() else { return };
    let (outbox, commits) = (outbox(), Commits::default());
    let test_hook = outbox.test_hook();
    let on_acquire = Instrumented { outbox: outbox.clone(), commits: commits.clone() };
    let pool = r2d2::Pool::builder().max_size(2).connection_customizer(Box::new(on_acquire));
    let pool = pool.build(ConnectionManager::<PgConnection>::new(url)).expect("a pool");
    // Both at once, so that they are two connections; and again, when the pool has had them back.
    for transactions in [2, 4] {
        let mut conns = [pool.get().expect("get"), pool.get().expect("get")];
        let sent = conns.each_mut().map(|conn| {
            let sent = conn.transaction(|conn| outbox.enqueue(conn, &order(1)));
            sent.expect("commit")
        });
        assert_eq!(handed_over(&test_hook), sent);
        assert_eq!(commits.seen(), transactions);
    }
}

/// A manager whose connections have the hook and the application's own.
fn manager(url: String, outbox: &Outbox, commits: &Commits) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    let (outbox, commits) = (outbox.clone(), commits.clone());
    let mut config = ManagerConfig::default();
    config.custom_setup = Box::new(move |url| {
        let (url, outbox, commits) = (url.to_owned(), outbox.clone(), commits.clone());
        Box::pin(async move {
            let mut conn: ConnectionResult<AsyncPgConnection> = AsyncPgConnection::establish(&url).await;
            if let Ok(conn) = &mut conn {
                conn.set_instrumentation(outbox.commit_hook().chain(commits.instrumentation()));
            }
            conn
        })
    });
    AsyncDieselConnectionManager::new_with_config(url, config)
}

async fn placed<C>(conn: &mut C, outbox: &Outbox, test_hook: &TestHook)
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C>,
{
    let sent: QueryResult<MessageId> = conn.transaction(async |conn| outbox.enqueue_async(conn, &order(1)).await).await;
    assert_eq!(handed_over(test_hook), [sent.expect("commit")]);
    let rolled_back = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(2)).await?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.await.expect_err("rolled back");
    assert_eq!(handed_over(test_hook), []);
}

/// Two connections of a pool at once, then one that it has had back.
macro_rules! custom_setup {
    ($test:ident, $pool:expr) => {
        #[tokio::test]
        async fn $test() {
            let Some(url) = fresh_postgres() else { return };
            let (outbox, commits) = (outbox(), Commits::default());
            let test_hook = outbox.test_hook();
            let build = $pool;
            let pool = build(manager(url, &outbox, &commits));
            {
                let (mut one, mut other) = (pool.get().await.expect("get"), pool.get().await.expect("get"));
                placed(&mut *one, &outbox, &test_hook).await;
                placed(&mut *other, &outbox, &test_hook).await;
            }
            placed(&mut *pool.get().await.expect("get"), &outbox, &test_hook).await;
            assert_eq!(commits.seen(), 3);
        }
    };
}

custom_setup!(deadpool_custom_setup, |manager| {
    deadpool::Pool::<AsyncPgConnection>::builder(manager).max_size(2).build().expect("a pool")
});
custom_setup!(bb8_custom_setup, |manager| bb8::Pool::<AsyncPgConnection>::builder()
    .max_size(2)
    .build_unchecked(manager));
custom_setup!(mobc_custom_setup, |manager| mobc::Pool::<AsyncPgConnection>::new(manager));
