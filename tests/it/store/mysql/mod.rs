//! MySQL, by MariaDB.

mod async_pool;
mod sync_pool;
mod under_test;
