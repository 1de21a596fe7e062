use crate::transport::{FailureClass, TransportError};

/// Runs a blocking network call outside the runtime's own threads.
pub(super) async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, TransportError> {
    let ran = tokio::task::spawn_blocking(run).await;
    ran.map_err(|error| TransportError::new(FailureClass::Temporary, error))
}
