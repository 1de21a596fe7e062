//! MySQL, by MariaDB.

mod async_pool;
mod connections;
mod plans_at_size;
mod regressions;
mod sync_pool;
mod under_test;

use std::time::{Duration, SystemTime};

use diesel::mysql::{Mysql, MysqlConnection};
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel_async::AsyncMysqlConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::store::{ClaimSpec, InsertOptions, RowKey, Sessions};
use diesel_outbox::testing::store::StoreUnderTest;
use diesel_outbox::{Envelope, MessageId};

use self::under_test::MysqlUnderTest;

fn r2d2(url: &str) -> R2d2Pool<ConnectionManager<MysqlConnection>> {
    R2d2Pool::builder().min_idle(Some(0)).build(ConnectionManager::new(url)).expect("a pool")
}

fn deadpool(url: &str) -> Pool<AsyncMysqlConnection> {
    Pool::builder(AsyncDieselConnectionManager::new(url)).build().expect("a pool")
}

async fn insert(test: &MysqlUnderTest<impl Sessions<Mysql>>) -> RowKey {
    let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
    test.insert(&envelope, InsertOptions::default()).await
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
