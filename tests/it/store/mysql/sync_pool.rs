//! The suite over libmysqlclient and r2d2.

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, Pool};

use super::under_test::MysqlUnderTest;
use crate::store::parts::unsupported;

async fn open() -> Option<MysqlUnderTest<Pool<ConnectionManager<MysqlConnection>>>> {
    MysqlUnderTest::open(super::r2d2)
}

diesel_outbox::store_conformance_tests!(open);

/// MySQL does not report which transactions are open, so a lane is read again for some time.
#[tokio::test]
async fn supports_everything_but_horizons() {
    let Some(test) = open().await else { return };
    assert_eq!(unsupported(&test).await, ["horizons"]);
}
