//! The connections that a store caches: few, prepared, and closed after anything that leaves their state open.

use std::time::Duration;

use diesel::pg::{Pg, PgConnection};
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_outbox::internals::store::{InsertOptions, Locking, PollSpec, RowKey, Store};
use diesel_outbox::internals::store_suite::StoreUnderTest;
use diesel_outbox::store::{ConnectionPool, StoreError};
use diesel_outbox::{Envelope, MessageId};

use super::under_test::{PostgresUnderTest, numbers};
use crate::store::eventually;
use crate::store::spec;

type Libpq = ConnectionManager<PgConnection>;

pub(super) fn r2d2(url: &str) -> R2d2Pool<Libpq> {
    R2d2Pool::builder().min_idle(Some(0)).build(ConnectionManager::new(url)).expect("a pool")
}

fn one_r2d2(url: &str) -> R2d2Pool<Libpq> {
    R2d2Pool::builder().max_size(1).min_idle(Some(0)).build(ConnectionManager::new(url)).expect("a pool")
}

fn manager(url: &str) -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(url)
}

pub(super) fn deadpool(url: &str) -> deadpool::Pool<AsyncPgConnection> {
    deadpool::Pool::builder(manager(url)).build().expect("a pool")
}

fn one_deadpool(url: &str) -> deadpool::Pool<AsyncPgConnection> {
    deadpool::Pool::builder(manager(url)).max_size(1).build().expect("a pool")
}

fn bb8(url: &str) -> bb8::Pool<AsyncPgConnection> {
    bb8::Pool::builder().build_unchecked(manager(url))
}

fn mobc(url: &str) -> mobc::Pool<AsyncPgConnection> {
    mobc::Pool::new(manager(url))
}

/// Makes each case a test over each pool.
macro_rules! over_every_pool {
    ($($case:ident),+ $(,)?) => {
        over_every_pool! { @pools [r2d2, deadpool, bb8, mobc] $($case),+ }
    };
    (@pools $pools:tt $($case:ident),+) => {
        $(mod $case { over_every_pool! { @one $case $pools } })+
    };
    (@one $case:ident [$($pool:ident),+]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $pool() {
                if let Some(under_test) = super::NamedStore::open(super::$pool) {
                    super::$case(under_test).await;
                }
            }
        )+
    };
}

over_every_pool! {
    calls_one_after_the_other_share_a_connection,
    time_out_closes_the_connection,
    cancelled_call_closes_the_connection,
    dropped_claim_closes_its_connection,
    failed_statement_closes_the_connection,
    dead_connections_cost_one_call,
    dropped_store_closes_its_connections,
}

/// A store whose connections have their own name at the server.
pub(super) struct NamedStore<P: ConnectionPool<Pg>> {
    pub(super) inner: PostgresUnderTest<P>,
    pub(super) name: String,
}

impl<P: ConnectionPool<Pg>> NamedStore<P> {
    pub(super) fn open(pool: impl FnOnce(&str) -> P) -> Option<Self> {
        let name = format!("store_{}", MessageId::new().as_uuid().simple());
        let inner = PostgresUnderTest::open(|url| pool(&format!("{url}?application_name={name}")))?;
        Some(Self { inner, name })
    }

    async fn insert(&self) -> RowKey {
        let envelope = Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
        self.inner.insert(&envelope, InsertOptions::default()).await
    }

    /// The server's processes for the store's connections.
    fn backends(&self) -> Vec<i32> {
        self.inner
            .numbers(&format!("SELECT pid AS number FROM pg_stat_activity WHERE application_name = '{}'", self.name))
    }

    async fn until_closed(&self, pids: &[i32]) {
        eventually("the connections are closed", || {
            let now = self.backends();
            (!pids.iter().any(|pid| now.contains(pid))).then_some(())
        })
        .await;
    }
}

async fn calls_one_after_the_other_share_a_connection(test: NamedStore<impl ConnectionPool<Pg>>) {
    for _ in 0..5 {
        let key = test.insert().await;
        let claim = test.inner.store.claim(&spec()).await.expect("claim");
        claim.handle.close(&[key], &[]).await.expect("close");
        test.inner.store.settle(&[key], Locking::Skip).await.expect("settle");
    }
    assert_eq!(test.backends().len(), 1);
}

async fn time_out_closes_the_connection(mut test: NamedStore<impl ConnectionPool<Pg>>) {
    let key = test.insert().await;
    let lock = test.inner.lock(key).await.expect("a lock");
    // Opens the connection while there is time: a busy machine takes longer than what is set next.
    test.inner.store.settle(&[key], Locking::Skip).await.expect("settle nothing");
    let limit = Duration::from_secs(1);
    test.inner.store = test.inner.store.statement_timeout(limit);
    // Without time-outs of the server, as after any call that was in time.
    test.inner.store.settle(&[key], Locking::Skip).await.expect("settle nothing");
    let open = test.backends();
    let error = test.inner.store.settle(&[key], Locking::Wait).await.expect_err("it waits for ever");
    assert!(matches!(error, StoreError::TimedOut { after } if after == limit), "{error}");
    lock.roll_back().await;
    test.until_closed(&open).await;
    test.inner.store = test.inner.store.statement_timeout(Duration::from_secs(5));
    test.inner.store.settle(&[key], Locking::Wait).await.expect("settle");
}

async fn cancelled_call_closes_the_connection(test: NamedStore<impl ConnectionPool<Pg>>) {
    let key = test.insert().await;
    let lock = test.inner.lock(key).await.expect("a lock");
    test.inner.store.settle(&[key], Locking::Skip).await.expect("settle nothing");
    let open = test.backends();
    {
        let rows = [key];
        let settle = test.inner.store.settle(&rows, Locking::Wait);
        let waiting = eventually("the settle waits", || test.inner.is_waiting(&test.name).then_some(()));
        tokio::select! {
            _ = settle => panic!("the row is locked"),
            () = waiting => {}
        }
    }
    lock.roll_back().await;
    test.until_closed(&open).await;
}

async fn dropped_claim_closes_its_connection(test: NamedStore<impl ConnectionPool<Pg>>) {
    let key = test.insert().await;
    let claim = test.inner.store.claim(&spec()).await.expect("claim");
    let open = test.backends();
    drop(claim);
    test.until_closed(&open).await;
    let claim = test.inner.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.rows.len(), 1, "the row is free again");
    claim.handle.close(&[key], &[]).await.expect("close");
}

async fn failed_statement_closes_the_connection(test: NamedStore<impl ConnectionPool<Pg>>) {
    let key = test.insert().await;
    test.inner.run(
        "CREATE FUNCTION {m}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$; \
         CREATE TRIGGER refuse BEFORE DELETE ON {m} FOR EACH ROW EXECUTE FUNCTION {m}_refuse();",
    );
    let claim = test.inner.store.claim(&spec()).await.expect("claim");
    let open = test.backends();
    let error = claim.handle.close(&[key], &[]).await.expect_err("the trigger refuses");
    assert!(matches!(error, StoreError::Statement(_)), "{error}");
    test.until_closed(&open).await;
    test.inner.run("DROP TRIGGER refuse ON {m}");
    let claim = test.inner.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.handle.close(&[key], &[]).await.expect("close").settled, [key]);
}

async fn dead_connections_cost_one_call(test: NamedStore<impl ConnectionPool<Pg>>) {
    let (first, second) = (test.inner.store.claim(&spec()).await, test.inner.store.claim(&spec()).await);
    for claim in [first, second] {
        claim.expect("claim").handle.close(&[], &[]).await.expect("close");
    }
    let open = test.backends();
    assert_eq!(open.len(), 2);
    for pid in &open {
        test.inner.run(&format!("SELECT pg_terminate_backend({pid})"));
    }
    test.until_closed(&open).await;
    let error =
        test.inner.store.poll(&PollSpec::everything(["orders".into()])).await.expect_err("the connection is dead");
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    test.inner.store.poll(&PollSpec::everything(["orders".into()])).await.expect("a new connection");
    test.inner.store.claim(&spec()).await.expect("claim").handle.close(&[], &[]).await.expect("close");
}

async fn dropped_store_closes_its_connections(test: NamedStore<impl ConnectionPool<Pg>>) {
    test.inner.store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll");
    let open = test.backends();
    assert_eq!(open.len(), 1);
    let NamedStore { inner, name } = test;
    let control = inner.drop_store();
    eventually("the connections are closed", || {
        let sql = format!("SELECT pid AS number FROM pg_stat_activity WHERE application_name = '{name}'");
        numbers(&control, &sql).is_empty().then_some(())
    })
    .await;
}

/// With fewer connections than calls, calls wait for each other instead of for an exhausted pool.
async fn one_connection_is_enough(test: NamedStore<impl ConnectionPool<Pg>>) {
    let key = test.insert().await;
    let claim = test.inner.store.claim(&spec()).await.expect("claim");
    let rows = [key];
    let settle = test.inner.store.settle(&rows, Locking::Wait);
    let close = async {
        tokio::task::yield_now().await;
        claim.handle.close(&[], &[]).await.expect("close");
    };
    let (settled, ()) = tokio::join!(settle, close);
    assert_eq!(settled.expect("settle"), [key]);
}

mod one_connection_is_enough {
    over_every_pool! { @one one_connection_is_enough [one_r2d2, one_deadpool] }
}
