//! SQLite.

mod lock;
mod plans;
mod pools;
mod rows;
mod tables;
mod under_test;

use std::time::{Duration, SystemTime};

use diesel::SqliteConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::store::{ClaimSpec, InsertOptions, RowKey, Sessions};
use diesel_outbox::testing::store::StoreUnderTest;
use diesel_outbox::{Envelope, MessageId};

use self::under_test::SqliteUnderTest;

type R2d2Pool = Pool<ConnectionManager<SqliteConnection>>;

fn r2d2(file: &str) -> R2d2Pool {
    Pool::builder().max_size(2).build(ConnectionManager::new(file)).expect("a pool")
}

async fn open() -> SqliteUnderTest<R2d2Pool> {
    SqliteUnderTest::open(async |file| r2d2(file)).await
}

async fn insert(under_test: &SqliteUnderTest<impl Sessions<diesel::sqlite::Sqlite>>) -> RowKey {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    under_test.insert(&envelope, InsertOptions::default()).await
}

fn spec() -> ClaimSpec {
    ClaimSpec {
        topic: "orders".into(),
        after: None,
        rows_max: 1_000,
        bytes_max: 8 << 20,
        term_duration: Duration::from_secs(4),
        lease_duration: Duration::from_secs(30),
        watermark_slack_duration: Duration::from_secs(10),
        keep: None,
    }
}
