//! The suite over mysql_async and deadpool.

use diesel_async::AsyncMysqlConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;

use super::under_test::MysqlUnderTest;

async fn open() -> Option<MysqlUnderTest<Pool<AsyncMysqlConnection>>> {
    MysqlUnderTest::open(|url| Pool::builder(AsyncDieselConnectionManager::new(url)).build().expect("a pool"))
}

diesel_outbox::store_conformance_tests!(open);
