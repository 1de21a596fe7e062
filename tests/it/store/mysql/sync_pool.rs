//! The suite over libmysqlclient and r2d2.

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, Pool};

use super::under_test::MysqlUnderTest;

async fn open() -> Option<MysqlUnderTest<Pool<ConnectionManager<MysqlConnection>>>> {
    MysqlUnderTest::open(super::r2d2)
}

diesel_outbox::store_conformance_tests!(open);
