use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use rocketmq_client_rust::{ClientRuntime, ClientRuntimeConfig};
use rocketmq_observability::TelemetryHandle;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner, ShutdownDeadline};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::limits::ROCKETMQ_END_TIMEOUT;

/// The client library's runtime, on threads of its own: it can be neither created nor dropped inside another one. Dropping this ends it
/// without waiting.
#[derive(Debug)]
pub(super) struct Library {
    _end: oneshot::Sender<()>,
}

impl Library {
    pub(super) fn start() -> Result<(Self, Handle, Arc<ClientRuntime>), String> {
        let (begun, beginning) = mpsc::sync_channel(1);
        let (end, ended) = oneshot::channel();
        let run = move || match begin() {
            Ok((owner, runtime, clients)) => {
                // The receiver is gone only if `start` panicked.
                let _ = begun.send(Ok((runtime, Arc::clone(&clients))));
                owner.block_on(async {
                    // The sender never sends; this ends when it is dropped.
                    let _ = ended.await;
                    // What does not end in time ends with the runtime.
                    let _ = clients.shutdown_until(ShutdownDeadline::after(ROCKETMQ_END_TIMEOUT)).await;
                    let _ = owner.shutdown_tasks_until(ShutdownDeadline::after(ROCKETMQ_END_TIMEOUT)).await;
                });
                let _ = owner.shutdown_background();
            }
            Err(problem) => drop(begun.send(Err(problem))),
        };
        let spawned = thread::Builder::new().name("verify-rocketmq".to_owned()).spawn(run);
        spawned.map_err(|error| error.to_string())?;
        let begun = beginning.recv().map_err(|_| "its thread panicked".to_owned())?;
        let (runtime, clients) = begun?;
        Ok((Self { _end: end }, runtime, clients))
    }
}

fn begin() -> Result<(RuntimeOwner, Handle, Arc<ClientRuntime>), String> {
    let config = RuntimeConfig::for_parallelism("verify-rocketmq", 2);
    let owner = RuntimeOwner::plan(config).map_err(|error| error.to_string())?.build();
    let owner = owner.map_err(|error| error.to_string())?;
    let runtime = owner.block_on(async { Handle::current() });
    let clients = ClientRuntime::try_new(
        owner.root_context().component("client"),
        ClientRuntimeConfig::default(),
        TelemetryHandle::noop(),
    );
    Ok((owner, runtime, clients.map_err(|error| error.to_string())?))
}
