//! MySQL, tested with MariaDB.

mod async_pool;
mod audit;
mod connections;
mod live_plans;
mod plans_at_size;
mod regressions;
mod sent_plans;
mod sync_pool;
mod under_test;

use diesel::mysql::MysqlConnection;
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel_async::AsyncMysqlConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;

fn r2d2(url: &str) -> R2d2Pool<ConnectionManager<MysqlConnection>> {
    R2d2Pool::builder().min_idle(Some(0)).build(ConnectionManager::new(url)).expect("a pool")
}

fn deadpool(url: &str) -> Pool<AsyncMysqlConnection> {
    Pool::builder(AsyncDieselConnectionManager::new(url)).build().expect("a pool")
}
