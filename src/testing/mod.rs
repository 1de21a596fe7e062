//! The conformance suite for your own transport (feature `testing`).

#[cfg(feature = "_internals")]
pub(crate) mod store;
pub mod transport;
