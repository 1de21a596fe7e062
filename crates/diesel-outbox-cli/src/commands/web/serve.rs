//! Serves until somebody stops it.

use std::future::IntoFuture as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::error::Error;
use crate::output::note;

/// How long open requests may take once it is stopped: longer than an open page keeps its event stream.
const END_MAX: Duration = Duration::from_secs(20);

/// Ctrl-C, and where there is one SIGTERM.
#[derive(Debug)]
pub(super) struct StopSignals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

#[cfg(unix)]
impl StopSignals {
    pub(super) fn new() -> Result<Self, Error> {
        let listen = |kind| signal(kind).map_err(|error| Error::failed(format!("cannot wait for signals: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl StopSignals {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self {})
    }

    async fn next(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            note(&format!("cannot wait for Ctrl-C: {error}"));
            std::future::pending::<()>().await;
        }
    }
}

/// Ends after the first signal, when the open requests are answered, and at the second one at once.
pub(super) async fn until_stopped(
    listener: TcpListener,
    router: Router,
    mut signals: StopSignals,
) -> Result<(), Error> {
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stopped.notified().await });
    let mut server = pin!(server.into_future());
    let failed = |error| Error::failed(format!("the dashboard has ended: {error}"));
    tokio::select! {
        ended = &mut server => return ended.map_err(failed),
        () = signals.next() => {}
    }
    note("Ending when the open requests are answered. Ctrl-C again ends at once.");
    stop.notify_one();
    tokio::select! {
        ended = &mut server => ended.map_err(failed),
        () = signals.next() => Ok(()),
        () = sleep(END_MAX) => Ok(()),
    }
}
