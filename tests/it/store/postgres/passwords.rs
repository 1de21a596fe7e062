//! Readable text about a store contains no password. Needs no server: nobody listens where it connects to.

use std::error::Error;
use std::time::Duration;

use diesel::connection::Connection as _;
use diesel::pg::{Pg, PgConnection};
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::internals::store::Store;
use diesel_outbox::store::{ConnectionPool, NoticeConnection, PostgresStore, StoreError};

const URL: &str = "postgres://outbox:s3cret-word@127.0.0.1:1/shop";
const PASSWORD: &str = "s3cret-word";

fn manager() -> AsyncDieselConnectionManager<AsyncPgConnection> {
    AsyncDieselConnectionManager::new(URL)
}

/// The error and its sources, printed in every format.
fn printed(error: &(dyn Error + 'static)) -> String {
    let (mut printed, mut next) = (String::new(), Some(error));
    while let Some(error) = next {
        printed += &format!("{error}\n{error:?}\n{error:#?}\n");
        next = error.source();
    }
    printed
}

fn assert_hides_password(text: &str) {
    assert!(!text.contains(PASSWORD), "{text}");
}

/// The error of a store over a pool that cannot connect.
async fn unreachable(pool: impl ConnectionPool<Pg>, within: Duration) -> StoreError {
    let store = PostgresStore::new(pool).statement_timeout(within).notice_connection(NoticeConnection::new(URL));
    let debug = format!("{store:?} {store:#?} {:?}", NoticeConnection::new(URL));
    assert!(debug.contains("PostgresStore"), "{debug}");
    assert_hides_password(&debug);
    let error = store.check().await.expect_err("nobody listens there");
    assert_hides_password(&printed(&error));
    assert!(error.is_retriable(), "{error}");
    error
}

/// These pools pass on the driver's error.
#[tokio::test]
async fn a_store_over_deadpool_or_mobc_hides_its_password() {
    let within = Duration::from_secs(10);
    let deadpool = deadpool::Pool::builder(manager()).build().expect("a pool");
    for error in [unreachable(deadpool, within).await, unreachable(mobc::Pool::new(manager()), within).await] {
        assert!(matches!(error, StoreError::Unreachable(_)), "or there is nothing to be seen: {error:?}");
    }
}

/// These pools retry until the time-out.
#[tokio::test]
async fn a_store_over_r2d2_or_bb8_hides_its_password() {
    let within = Duration::from_millis(500);
    let manager_of_r2d2 = ConnectionManager::<PgConnection>::new(URL);
    let r2d2 = R2d2Pool::builder().max_size(1).min_idle(Some(0)).build(manager_of_r2d2).expect("a pool");
    unreachable(r2d2.clone(), within).await;
    let error = r2d2.get_timeout(within).map(drop).expect_err("nobody listens there");
    assert_hides_password(&printed(&error));
    let bb8 = bb8::Pool::builder().connection_timeout(within).build_unchecked(manager());
    unreachable(bb8, within * 20).await;
}

#[tokio::test]
async fn a_refused_connection_hides_its_password() {
    let error = PgConnection::establish(URL).map(drop).expect_err("nobody listens there");
    assert_hides_password(&printed(&error));
    let error = AsyncPgConnection::establish(URL).await.map(drop).expect_err("nobody listens there");
    assert_hides_password(&printed(&error));
}
