//! Conformance suites for implementations of `Store` and `Transport` (feature `testing`).

pub mod store;
pub mod transport;
