//! PostgreSQL.

mod async_pool;
mod connections;
mod history;
mod plans;
mod regressions;
mod sync_pool;
mod under_test;
