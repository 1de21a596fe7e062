//! The suite over mysql_async and deadpool.

use diesel_async::AsyncMysqlConnection;
use diesel_async::pooled_connection::deadpool::Pool;

use super::under_test::MysqlUnderTest;

async fn open() -> Option<MysqlUnderTest<Pool<AsyncMysqlConnection>>> {
    MysqlUnderTest::open(super::deadpool)
}

diesel_outbox::store_conformance_tests!(open);
