//! Consumers, against the real broker and each database.

mod asynchronous;
mod batches;
pub(crate) mod bed;
mod conformance;
mod copies;
pub(crate) mod crash;
mod failures;
mod first_answers;
mod flow;
mod group_member;
mod lag;
mod mishaps;
mod offsets;
mod once;
mod operators;
mod other_producers;
mod outages;
mod own_statements;
mod pruning;
mod ranges;
mod rebalance;
mod refusals;
mod rights;
#[cfg(feature = "_test")]
mod rocketmq;
mod starting;
mod too_old;
