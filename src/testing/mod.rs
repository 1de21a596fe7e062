//! Conformance suites for implementations of the ports (feature `testing`).

pub mod store;
pub mod transport;
