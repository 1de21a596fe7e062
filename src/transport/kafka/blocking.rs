use crate::transport::{FailureClass, TransportError};

/// Runs what waits for the network away from the runtime's own threads.
pub(super) async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, TransportError> {
    let ran = tokio::task::spawn_blocking(run).await;
    ran.map_err(|error| TransportError::new(FailureClass::Temporary, error))
}
