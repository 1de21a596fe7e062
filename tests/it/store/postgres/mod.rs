//! PostgreSQL.

mod async_pool;
mod connections;
mod given_up;
mod history;
mod passwords;
mod plans;
mod plans_at_size;
mod regressions;
mod sync_pool;
mod under_test;
