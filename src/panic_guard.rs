//! Calls into code of the application's, or of a store or transport of somebody else's: a panic of theirs ends no task of a relay.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt as _;

use crate::events::log_event;
use crate::metrics;

/// Calls it; `None` where it panicked, which is counted and logged. The panic's own message went where the process's panics go.
pub(crate) fn catch_panic<T>(call: &'static str, about: &str, run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_panic| note(call, about)).ok()
}

/// As [`catch_panic`], of a future.
pub(crate) async fn catch_panic_async<T>(call: &'static str, about: &str, run: impl Future<Output = T>) -> Option<T> {
    AssertUnwindSafe(run).catch_unwind().await.map_err(|_panic| note(call, about)).ok()
}

fn note(call: &'static str, about: &str) {
    log_event!(CALL_PANICKED, call, about);
    ::metrics::counter!(metrics::CALL_PANICKED, "call" => call).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_no_answer() {
        assert_eq!(catch_panic("test", "", || 1), Some(1));
        assert_eq!(catch_panic("test", "", || panic!("of this test")), None::<u8>);
        assert_eq!(catch_panic_async("test", "", async { 1 }).await, Some(1));
        assert_eq!(catch_panic_async("test", "", async { panic!("of this test") }).await, None::<u8>);
    }
}
