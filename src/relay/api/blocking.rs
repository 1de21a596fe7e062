use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::builder::RelayBuilder;
use super::flush::FlushOutcome;
use super::handle::RelayHandle;
use super::panicked::RelayPanicked;
use super::shutdown::ShutdownReport;
use super::start_error::StartError;
use crate::events::log_event;
use crate::limits::{BLOCKING_CALLS_MAX, BLOCKING_CHECK_INTERVAL, THREAD_END_TIMEOUT};
use crate::relay::direct::queue::ConnectedRelay as _;
use crate::relay::engine::engines::Engines;
use crate::relay::health::backlog::{self, Backlog, BacklogError};
use crate::relay::health::status::{self, RelayStatus};
use crate::store::StoreError;

/// A running relay on a thread and runtime of its own, for applications without tokio. From [`RelayBuilder::start_blocking`].
///
/// Its methods block the calling thread. Up to 64 calls can run at the same time without waiting for each other; further ones
/// wait until one ends.
///
/// # Panics
/// Methods that must wait panic on a thread that runs async tasks.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::transport::MemoryTransport;
/// use diesel_outbox::{Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let relay = outbox.relay().store(MemoryStore::new()).transport(MemoryTransport::new()).start_blocking()?;
/// assert_eq!(relay.status()?.in_flight, 0);
/// assert_eq!(relay.backlog()?.due(), 0);
/// assert!(relay.flush(Duration::from_secs(10))?.is_settled());
/// assert!(relay.shutdown(Duration::from_secs(10))?.is_clean());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a dropped relay sends nothing: keep it, and end it with `shutdown`"]
pub struct BlockingRelay {
    pub(in crate::relay) requests: tokio::sync::mpsc::Sender<Request>,
    thread: Option<JoinHandle<()>>,
    handle: RelayHandle,
}

#[derive(Debug)]
pub(in crate::relay) enum Request {
    Query(Query),
    Shutdown(Duration, mpsc::Sender<ShutdownReport>),
}

/// A request that does not end the relay.
#[derive(Debug)]
pub(in crate::relay) enum Query {
    Flush(Duration, mpsc::Sender<FlushOutcome>),
    Status(mpsc::Sender<RelayStatus>),
    Backlog(mpsc::Sender<Result<Backlog, StoreError>>),
}

impl RelayBuilder {
    /// Starts the relay on a thread of its own, for applications without tokio.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    ///
    /// # Panics
    /// Panics on a thread that runs async tasks, because it must wait: use [`start`](Self::start) there. What was started by then
    /// ends by itself.
    pub fn start_blocking(self) -> Result<BlockingRelay, StartError> {
        BlockingRelay::start(self)
    }
}

impl BlockingRelay {
    fn start(builder: RelayBuilder) -> Result<Self, StartError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
        let (requests, receiver) = tokio::sync::mpsc::channel(BLOCKING_CALLS_MAX);
        let (started, outcome) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("outbox-relay".to_owned())
            .spawn(move || serve(runtime, builder, started, receiver))
            .map_err(StartError::Runtime)?;
        match outcome.blocking_recv() {
            Ok(Ok(handle)) => Ok(Self { requests, thread: Some(thread), handle }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Panicked(RelayPanicked::new())),
        }
    }

    /// Like [`Relay::handle`](crate::relay::Relay::handle). Of the handle's methods, `status` and `health` return at once on any
    /// thread. The others are async and need a tokio runtime: without one, use the methods here.
    pub fn handle(&self) -> RelayHandle {
        self.handle.clone()
    }

    /// Like [`Relay::flush`](crate::relay::Relay::flush).
    ///
    /// # Errors
    /// Returns [`RelayPanicked`] if the relay's thread panicked: then nothing is sent any more.
    pub fn flush(&self, within: Duration) -> Result<FlushOutcome, RelayPanicked> {
        self.request(|response| Request::Query(Query::Flush(within, response)))
    }

    /// Like [`Relay::status`](crate::relay::Relay::status).
    ///
    /// # Errors
    /// Returns [`RelayPanicked`] if the relay's thread panicked: then nothing is sent any more.
    pub fn status(&self) -> Result<RelayStatus, RelayPanicked> {
        self.request(|response| Request::Query(Query::Status(response)))
    }

    /// Like [`Relay::backlog`](crate::relay::Relay::backlog).
    ///
    /// # Errors
    /// Returns an error if the database could not be read, or if the relay's thread panicked.
    pub fn backlog(&self) -> Result<Backlog, BacklogError> {
        Ok(self.request(|response| Request::Query(Query::Backlog(response)))??)
    }

    /// Like [`Relay::shutdown`](crate::relay::Relay::shutdown).
    ///
    /// # Errors
    /// Returns [`RelayPanicked`] if the relay's thread panicked before or during the shutdown: then what was left is unknown.
    pub fn shutdown(mut self, grace: Duration) -> Result<ShutdownReport, RelayPanicked> {
        let report = self.request(|response| Request::Shutdown(grace, response));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_event!(RELAY_THREAD_PANICKED);
        }
        report
    }

    fn request<T>(&self, request: impl FnOnce(mpsc::Sender<T>) -> Request) -> Result<T, RelayPanicked> {
        let (response, received) = mpsc::channel();
        // Both ends are gone only with the thread.
        match self.requests.try_send(request(response)) {
            Err(TrySendError::Full(request)) => {
                self.requests.blocking_send(request).map_err(|_| RelayPanicked::new())?
            }
            sent => sent.map_err(|_| RelayPanicked::new())?,
        }
        loop {
            match received.recv_timeout(BLOCKING_CHECK_INTERVAL) {
                Err(RecvTimeoutError::Timeout) if self.has_ended() => {
                    // It may have responded right before its end.
                    return received.try_recv().map_err(|_| RelayPanicked::new());
                }
                Err(RecvTimeoutError::Timeout) => {}
                response => return response.map_err(|_| RelayPanicked::new()),
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// Takes the runtime in order to shut it down with a time-out. Dropping it would wait for a callback that blocks.
fn serve(
    runtime: Runtime,
    builder: RelayBuilder,
    started: oneshot::Sender<Result<RelayHandle, StartError>>,
    mut receiver: tokio::sync::mpsc::Receiver<Request>,
) {
    runtime.block_on(async move {
        let relay = match builder.start().await {
            Ok(relay) => relay,
            Err(error) => return drop(started.send(Err(error))),
        };
        drop(started.send(Ok(relay.handle())));
        // Queries run concurrently, so that a status never waits for a flush. They run in this task, so that a panic in one ends
        // the thread and reaches the caller.
        let mut in_progress = FuturesUnordered::new();
        loop {
            let request = tokio::select! {
                request = receiver.recv(), if in_progress.len() < BLOCKING_CALLS_MAX => request,
                Some(()) = in_progress.next() => continue,
            };
            match request {
                Some(Request::Shutdown(grace, response)) => return drop(response.send(relay.shutdown(grace).await)),
                Some(Request::Query(query)) => in_progress.push(respond(Arc::clone(&relay.engines), query)),
                None => return,
            }
        }
    });
    runtime.shutdown_timeout(THREAD_END_TIMEOUT);
}

/// A caller may have gone meanwhile. Then nobody needs the response.
async fn respond(engines: Arc<Engines>, query: Query) {
    match query {
        Query::Flush(within, response) => drop(response.send(engines.flush(within).await)),
        Query::Status(response) => drop(response.send(status::snapshot(&engines))),
        Query::Backlog(response) => drop(response.send(backlog::count(&engines).await)),
    }
}
