//! Consumers, against the real broker and each database.

mod asynchronous;
pub(crate) mod bed;
pub(crate) mod crash;
mod failures;
mod mishaps;
mod offsets;
mod once;
mod outages;
mod own_statements;
mod pruning;
mod ranges;
mod rebalance;
mod refusals;
#[cfg(feature = "_test")]
mod rocketmq;
mod starting;
mod too_old;
