//! The suite over libpq and r2d2.

use diesel::pg::PgConnection;
use diesel::r2d2::{ConnectionManager, Pool};

use super::under_test::PostgresUnderTest;
use crate::store::parts::unsupported;

async fn open() -> Option<PostgresUnderTest<Pool<ConnectionManager<PgConnection>>>> {
    PostgresUnderTest::open(|url| Pool::builder().min_idle(Some(0)).build(ConnectionManager::new(url)).expect("a pool"))
}

diesel_outbox::store_conformance_tests!(open);

#[tokio::test]
async fn supports_everything() {
    let Some(test) = open().await else { return };
    assert_eq!(unsupported(&test).await, Vec::<&str>::new());
}
