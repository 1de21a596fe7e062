//! Transports, against the conformance suite and against what is particular to each.

pub(crate) mod acl;
mod broker;
#[cfg(feature = "_test")]
pub(crate) mod half_rocketmq;
mod http;
mod java;
mod kafka;
pub(crate) mod kafka_access;
mod kafka_config;
mod kafka_down;
mod kafka_faults;
mod kafka_late_end;
mod kafka_mock;
mod kafka_partitions;
mod kafka_requests;
mod kafka_silent;
mod kafka_starved;
mod kafka_topics;
mod logs;
mod memory;
#[cfg(feature = "_test")]
mod mixed;
#[cfg(feature = "_test")]
mod rocketmq;
#[cfg(feature = "_test")]
mod rocketmq_broker;
#[cfg(feature = "_test")]
mod rocketmq_config;
#[cfg(feature = "_test")]
mod rocketmq_down;
#[cfg(feature = "_test")]
mod rocketmq_hung;
#[cfg(feature = "_test")]
mod rocketmq_names;
#[cfg(feature = "_test")]
mod rocketmq_relayed;
#[cfg(feature = "_test")]
mod suites;
