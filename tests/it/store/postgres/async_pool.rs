//! The suite over tokio-postgres and deadpool.

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;

use super::under_test::PostgresUnderTest;

async fn open() -> Option<PostgresUnderTest<Pool<AsyncPgConnection>>> {
    PostgresUnderTest::open(|url| Pool::builder(AsyncDieselConnectionManager::new(url)).build().expect("a pool"))
}

diesel_outbox::store_conformance_tests!(open);
