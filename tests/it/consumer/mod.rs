//! Consumers, against the real broker and each database.

mod asynchronous;
mod bed;
pub(crate) mod crash;
mod failures;
mod offsets;
mod once;
mod outages;
mod rebalance;
mod refusals;
