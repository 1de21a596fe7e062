use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use rocketmq_client_rust::{ClientRuntime, ClientRuntimeConfig};
use rocketmq_observability::TelemetryHandle;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner, ShutdownDeadline};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::config::RocketMqConfigError;
use crate::limits::ROCKETMQ_END_TIMEOUT;

/// The client library's runtime, on its own threads: blocking calls, panics and shutdown of the library then affect
/// nothing else. Dropping this ends it without waiting.
pub(super) struct Library {
    _end: oneshot::Sender<()>,
}

impl Library {
    pub(super) fn start() -> Result<(Self, Handle, Arc<ClientRuntime>), RocketMqConfigError> {
        let (begun, beginning) = mpsc::sync_channel(1);
        let (end, ended) = oneshot::channel();
        // On a thread, because a runtime can be neither created nor dropped inside another one.
        let run = move || match begin() {
            Ok((owner, runtime, clients)) => {
                // The receiver is gone only if `start` panicked.
                let _ = begun.send(Ok((runtime, Arc::clone(&clients))));
                owner.block_on(async {
                    // The sender never sends; this ends when it is dropped.
                    let _ = ended.await;
                    let _ = clients.shutdown_until(ShutdownDeadline::after(ROCKETMQ_END_TIMEOUT)).await;
                    let _ = owner.shutdown_tasks_until(ShutdownDeadline::after(ROCKETMQ_END_TIMEOUT)).await;
                });
                let _ = owner.shutdown_background();
            }
            Err(problem) => drop(begun.send(Err(problem))),
        };
        let problem = |problem: String| RocketMqConfigError::Client { problem };
        thread::Builder::new()
            .name("outbox-rocketmq".to_owned())
            .spawn(run)
            .map_err(|error| problem(error.to_string()))?;
        let begun = beginning.recv().map_err(|_| problem("its thread panicked".to_owned()))?;
        let (runtime, clients) = begun.map_err(problem)?;
        Ok((Self { _end: end }, runtime, clients))
    }
}

fn begin() -> Result<(RuntimeOwner, Handle, Arc<ClientRuntime>), String> {
    let config = RuntimeConfig::for_parallelism("outbox-rocketmq", 2);
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
