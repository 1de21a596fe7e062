use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::builder::{RelayBuilder, StartError};
use super::shutdown::ShutdownReport;
use super::status::RelayStatus;

/// A relay on a thread and runtime of its own, for applications without tokio. Made by
/// [`RelayBuilder::start_blocking`].
#[derive(Debug)]
pub struct BlockingRelay {
    requests: tokio::sync::mpsc::UnboundedSender<Request>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Request {
    Flush(Duration, mpsc::Sender<bool>),
    Status(mpsc::Sender<RelayStatus>),
    Shutdown(Duration, mpsc::Sender<ShutdownReport>),
}

impl RelayBuilder {
    /// Starts the relay on a thread of its own, for applications without tokio.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_blocking(self) -> Result<BlockingRelay, StartError> {
        BlockingRelay::start(self)
    }
}

impl BlockingRelay {
    fn start(builder: RelayBuilder) -> Result<Self, StartError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
        let (requests, inbox) = tokio::sync::mpsc::unbounded_channel();
        let (started, outcome) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("outbox-relay".to_owned())
            .spawn(move || serve(&runtime, builder, started, inbox))
            .map_err(StartError::Runtime)?;
        match outcome.blocking_recv() {
            Ok(Ok(())) => Ok(Self { requests, thread: Some(thread) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StartError::Runtime(std::io::Error::other("the relay's thread ended by a panic"))),
        }
    }

    /// Like [`Relay::flush`](super::Relay::flush), blocking the calling thread.
    pub fn flush(&self, within: Duration) -> bool {
        self.ask(|answer| Request::Flush(within, answer)).unwrap_or(false)
    }

    /// Like [`Relay::status`](super::Relay::status); `None` where the relay's thread ended by a panic.
    pub fn status(&self) -> Option<RelayStatus> {
        self.ask(Request::Status)
    }

    /// Like [`Relay::shutdown`](super::Relay::shutdown), blocking the calling thread; `None` where the relay's thread
    /// ended by a panic.
    pub fn shutdown(mut self, grace: Duration) -> Option<ShutdownReport> {
        let report = self.ask(|answer| Request::Shutdown(grace, answer));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the relay's thread ended by a panic");
        }
        report
    }

    fn ask<T>(&self, request: impl FnOnce(mpsc::Sender<T>) -> Request) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        self.requests.send(request(answer)).ok()?;
        answered.recv().ok()
    }
}

fn serve(
    runtime: &Runtime,
    builder: RelayBuilder,
    started: oneshot::Sender<Result<(), StartError>>,
    mut inbox: tokio::sync::mpsc::UnboundedReceiver<Request>,
) {
    runtime.block_on(async move {
        let relay = match builder.start().await {
            Ok(relay) => relay,
            Err(error) => return drop(started.send(Err(error))),
        };
        // Whoever asked may have gone meanwhile; then nobody needs the answer.
        drop(started.send(Ok(())));
        while let Some(request) = inbox.recv().await {
            match request {
                Request::Flush(within, answer) => drop(answer.send(relay.flush(within).await)),
                Request::Status(answer) => drop(answer.send(relay.status())),
                Request::Shutdown(grace, answer) => return drop(answer.send(relay.shutdown(grace).await)),
            }
        }
    });
}
