//! The conformance suite of consumers on top of an inbox: that each message has its effect once, whatever happens.
//!
//! What is public of it is [`ConsumerUnderTest`] and [`consumer_conformance_tests!`](crate::consumer_conformance_tests).

pub mod cases;
mod list;
mod under_test;

pub use under_test::ConsumerUnderTest;

/// Runs one case; passes if `open` returns no consumer.
///
/// # Panics
/// If the case fails.
pub fn run_case<T: ConsumerUnderTest>(case: impl FnOnce(&T), open: impl FnOnce() -> Option<T>) {
    if let Some(under_test) = open() {
        case(&under_test);
    }
}
