//! PostgreSQL.

mod async_pool;
mod connections;
mod sync_pool;
mod under_test;
