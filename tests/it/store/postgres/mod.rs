//! PostgreSQL.

mod abandoned_calls;
mod async_pool;
mod audit;
mod connections;
mod flushed;
mod history;
mod isolation;
mod live_plans;
mod passwords;
mod plans;
mod plans_at_size;
mod regressions;
mod sent_plans;
mod snapshot;
mod sync_pool;
mod under_test;
