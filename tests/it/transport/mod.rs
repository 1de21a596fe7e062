//! Transports, against the conformance suite and against what is particular to each.

pub(crate) mod acl;
pub(crate) mod broker;
#[cfg(feature = "_test")]
mod conformance_coverage;
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
mod kafka_proxy;
mod kafka_silent;
mod kafka_topics;
mod kafka_under_replicated;
mod logs;
mod memory;
#[cfg(feature = "_test")]
mod mixed;
#[cfg(feature = "_test")]
mod rocketmq;
#[cfg(feature = "_test")]
pub(crate) mod rocketmq_broker;
#[cfg(feature = "_test")]
mod rocketmq_config;
#[cfg(feature = "_test")]
mod rocketmq_down;
#[cfg(feature = "_test")]
mod rocketmq_frozen;
#[cfg(feature = "_test")]
mod rocketmq_name_servers;
#[cfg(feature = "_test")]
mod rocketmq_relayed;
