//! Consumers, against the real broker and each database.

mod asynchronous;
mod bed;
pub(crate) mod crash;
mod failures;
mod mishaps;
mod offsets;
mod once;
mod own_statements;
mod outages;
mod rebalance;
mod ranges;
mod refusals;
mod too_old;
