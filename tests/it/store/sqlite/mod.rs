//! SQLite.

mod live_plans;
mod lock;
mod plans;
mod pools;
mod rows;
mod tables;
mod under_test;

use diesel::SqliteConnection;
use diesel::r2d2::{ConnectionManager, Pool};

use self::under_test::SqliteUnderTest;

type R2d2Pool = Pool<ConnectionManager<SqliteConnection>>;

fn r2d2(file: &str) -> R2d2Pool {
    Pool::builder().max_size(2).build(ConnectionManager::new(file)).expect("a pool")
}

async fn open() -> SqliteUnderTest<R2d2Pool> {
    SqliteUnderTest::open(async |file| r2d2(file)).await
}
