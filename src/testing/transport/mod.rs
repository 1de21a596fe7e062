//! The conformance suite of [`Transport`](crate::transport::Transport): what the relay requires of it, as test cases.
//!
//! What is public of it is [`TransportUnderTest`], [`OutcomeRecorder`] and
//! [`transport_conformance_tests!`](crate::transport_conformance_tests), which lists the cases.

pub mod cases;
mod list;
mod outcomes;
mod under_test;

pub use list::CASES;
pub use outcomes::{OutcomeRecorder, RecordedOutcome};
pub use under_test::{StoredMessage, TransportUnderTest};

use std::fmt;
use std::pin::{Pin, pin};

/// One requirement of the relay.
#[derive(Clone, Copy)]
pub struct Case {
    /// What is required; also the name of its function in [`cases`].
    pub name: &'static str,
    /// Checks the requirement, and panics if it is not met.
    pub run: fn(&dyn TransportUnderTest) -> CaseFuture<'_>,
}

/// A running case.
pub type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs one case on its own tokio runtime; passes if `open` returns no broker.
///
/// # Panics
/// If the case fails.
pub fn run_case<T: TransportUnderTest>(
    case: impl AsyncFnOnce(&dyn TransportUnderTest),
    open: impl AsyncFnOnce() -> Option<T>,
) {
    super::run_on_own_runtime(pin!(async {
        if let Some(under_test) = open().await {
            case(&under_test).await;
        }
    }));
}
