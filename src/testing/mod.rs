//! Conformance suites for implementations of the ports (feature `testing`).

pub mod store;
