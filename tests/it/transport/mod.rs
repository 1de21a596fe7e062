//! Transports, against the conformance suite and against what is particular to each.

mod broker;
mod kafka;
mod kafka_mock;
mod memory;
