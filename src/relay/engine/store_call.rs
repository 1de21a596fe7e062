//! Calls of the store. It runs code that is not ours: the driver, the pool, the application's set-up of connections.

use crate::panic_guard::catch_panic_async;
use crate::store::StoreError;

/// Calls the store. A panic counts as a permanent error: callers that halve a batch at such an error do the same at a
/// panic.
pub(crate) async fn store_call<T>(
    call: &'static str,
    run: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let result = catch_panic_async("store", call, run).await;
    result.unwrap_or_else(|| Err(StoreError::Statement(Box::new(Panicked { call }))))
}

#[derive(Debug, thiserror::Error)]
#[error("the store panicked in its `{call}`")]
struct Panicked {
    call: &'static str,
}
