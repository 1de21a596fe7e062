//! The conformance suites for your own transport and your own consumer (feature `testing`).

#[doc(hidden)]
pub mod consumer;
#[cfg(feature = "_internals")]
pub(crate) mod store;
pub mod transport;

pub use self::consumer::ConsumerUnderTest;
