//! A retry policy that panics on request, like one with a bug of the application.

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel_outbox::retry::{Fixed, RetryPolicy};
use tokio::time::Instant;

/// Its panic message, which is unique.
const PANIC_MESSAGE: &str = "the application's retry policy panics on request";
/// The name of the count of its panics.
pub(crate) const POLICIES: &str = "(retry policies panicked)";

/// The policy of every topic.
#[derive(Debug, Clone)]
pub(super) struct PanickingPolicy {
    waits: Fixed,
    panics_until: Arc<Mutex<Option<Instant>>>,
    panicked: Arc<AtomicU64>,
}

impl Default for PanickingPolicy {
    fn default() -> Self {
        let waits = Fixed::from(vec![Duration::from_millis(100)]);
        Self { waits, panics_until: Arc::default(), panicked: Arc::default() }
    }
}

impl PanickingPolicy {
    pub(super) fn panic(&self, for_ms: u64) {
        let until = Instant::now() + Duration::from_millis(for_ms);
        *self.panics_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// How often it panicked.
    pub(super) fn count(&self) -> (String, u64) {
        (POLICIES.to_owned(), self.panicked.load(Ordering::Relaxed))
    }
}

impl RetryPolicy for PanickingPolicy {
    fn wait(&self, failures: u32) -> Duration {
        let until = *self.panics_until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| Instant::now() < until) {
            self.panicked.fetch_add(1, Ordering::Relaxed);
            panic!("{PANIC_MESSAGE}");
        }
        self.waits.wait(failures)
    }
}

/// Whether a panic is one of these, and so no bug of the library or the load.
pub(super) fn is_deliberate(panicked: &PanicHookInfo<'_>) -> bool {
    let payload = panicked.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text == Some(PANIC_MESSAGE)
}
