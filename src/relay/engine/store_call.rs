//! Calls of the store, which may be somebody else's.

use crate::panic_guard::catch_panic_async;
use crate::store::StoreError;

/// What the store answers; where it panics, that it failed and would again. Whoever treats an error for good by the rows in it, halving
/// the batch, treats a panic in the same way.
pub(crate) async fn store_call<T>(
    call: &'static str,
    run: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = catch_panic_async("store", call, run).await;
    answer.unwrap_or_else(|| Err(StoreError::Statement(Box::new(Panicked { call }))))
}

#[derive(Debug, thiserror::Error)]
#[error("the store panicked in its `{call}`")]
struct Panicked {
    call: &'static str,
}
