use std::thread;

use tokio::sync::oneshot;

use crate::transport::{FailureClass, TransportError};

/// Runs a blocking network call on a thread of its own.
///
/// **Rejected:** a blocking thread of the runtime. A runtime waits for such threads when it ends, and the client waits seconds for a
/// broker that does not answer. So an application without its broker ended three seconds late.
pub(super) async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, TransportError> {
    let (sender, receiver) = oneshot::channel();
    // The caller may no longer wait. Then nobody needs the result.
    let thread = thread::Builder::new().name("outbox-kafka-wait".to_owned()).spawn(move || drop(sender.send(run())));
    thread.map_err(|error| TransportError::new(FailureClass::Temporary, error))?;
    receiver.await.map_err(|_| TransportError::new(FailureClass::Temporary, Panicked))
}

#[derive(Debug, thiserror::Error)]
#[error("the thread that waits for Kafka panicked")]
struct Panicked;
