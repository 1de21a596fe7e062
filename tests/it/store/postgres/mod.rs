//! PostgreSQL.

mod async_pool;
mod connections;
mod given_up;
mod history;
mod isolation;
mod passwords;
mod plans;
mod plans_at_size;
mod regressions;
mod snapshot;
mod sync_pool;
mod under_test;
