//! The conformance suites for your own transport and your own consumer (feature `testing`).

#[doc(hidden)]
pub mod consumer;
#[cfg(feature = "_internals")]
pub(crate) mod store;
#[doc(hidden)]
pub mod transport;

use std::pin::Pin;

pub use self::consumer::ConsumerUnderTest;
pub use self::transport::{OutcomeRecorder, RecordedOutcome, StoredMessage, TransportUnderTest};

/// Runs a case of a suite. Not generic: each type of future would be another copy of tokio's code to build.
fn run_on_own_runtime(case: Pin<&mut dyn Future<Output = ()>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a tokio runtime");
    runtime.block_on(case);
}
