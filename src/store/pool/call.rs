//! One call on a connection, and what happens when its caller stops waiting.
//!
//! The server does not notice that a client stopped waiting. It may still wait for a lock, with a process and a connection. So a
//! dropped call goes on here, and its connection keeps its place in the pool until the server has answered. **Rejected:** closing
//! the connection at once. The pool would open another one each time, and the server's connections would add up (34 after 100 s of
//! `LOCK TABLE` with one relay).

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use diesel::QueryResult;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::Cancel;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{ABANDONED_STATEMENT_TIMEOUT, CANCEL_TIMEOUT, CONNECTIONS_ABANDONED_MAX};

/// A running call with its connection, which comes back with the result.
pub(super) struct Call<S: Send + 'static, T: Send + 'static> {
    running: Option<BoxFuture<'static, (S, QueryResult<T>)>>,
    abandoned: Arc<AbandonedCalls>,
    cancel: Option<Cancel>,
    /// Whether the server was given a statement time-out.
    has_server_timeout: bool,
}

impl<S: Send + 'static, T: Send + 'static> Call<S, T> {
    pub(super) fn new(
        running: BoxFuture<'static, (S, QueryResult<T>)>,
        abandoned: Arc<AbandonedCalls>,
        cancel: Option<Cancel>,
        has_server_timeout: bool,
    ) -> Self {
        Self { running: Some(running), abandoned, cancel, has_server_timeout }
    }
}

impl<S: Send + 'static, T: Send + 'static> Future for Call<S, T> {
    type Output = (S, QueryResult<T>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(running) = &mut self.running else { unreachable!("polled after its end") };
        let polled = running.as_mut().poll(context);
        if polled.is_ready() {
            self.running = None;
        }
        polled
    }
}

impl<S: Send + 'static, T: Send + 'static> Drop for Call<S, T> {
    fn drop(&mut self) {
        let running = self.running.take().filter(|_| !is_injected(InjectedBug::StatementLeftBehind));
        let Some(running) = running else { return };
        // Without a runtime it cannot wait, so the connection is closed.
        let Ok(runtime) = Handle::try_current() else { return };
        let (cancel, has_server_timeout) = (self.cancel.take(), self.has_server_timeout);
        let guard = AbandonedGuard::new(&self.abandoned);
        let answered = Box::pin(async move { drop(running.await) });
        runtime.spawn(guard.wait(answered, cancel, has_server_timeout));
    }
}

/// Counts a connection as abandoned.
struct AbandonedGuard(Arc<AbandonedCalls>);

impl AbandonedGuard {
    fn new(abandoned: &Arc<AbandonedCalls>) -> Self {
        abandoned.count.send_modify(|count| *count += 1);
        Self(Arc::clone(abandoned))
    }

    /// Waits for the answer, or until the server must have ended the statement. Boxed, because there are calls of hundreds of types,
    /// and a task of each would be another copy of tokio's code to build.
    async fn wait(self, answered: BoxFuture<'static, ()>, cancel: Option<Cancel>, has_server_timeout: bool) {
        tokio::select! {
            () = answered => {}
            () = self.0.wait_for_server(cancel, has_server_timeout) => {}
        }
        // The connection is closed by now, and counted until here.
        drop(self);
    }
}

impl Drop for AbandonedGuard {
    fn drop(&mut self) {
        self.0.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// The connections of a store whose calls were abandoned and not yet answered by the server.
#[derive(Debug)]
pub(super) struct AbandonedCalls {
    count: watch::Sender<usize>,
    /// Allows one cancel request at a time: each opens a connection, and a server that hangs keeps them all open.
    cancel_permit: Semaphore,
}

impl Default for AbandonedCalls {
    fn default() -> Self {
        Self { count: watch::Sender::new(0), cancel_permit: Semaphore::new(1) }
    }
}

impl AbandonedCalls {
    /// Waits until few enough connections are abandoned to open another. Cancel safe.
    pub(super) async fn wait_for_room(&self) {
        // An error would mean that the sender is gone, but `self` owns it.
        let _ = self.count.subscribe().wait_for(|count| *count < CONNECTIONS_ABANDONED_MAX).await;
    }

    /// Completes long after the server's time-out or the cancel request, when the server must have ended the statement. If the
    /// server got neither, it never completes: then only an answer, or the end of the connection, ends the call.
    async fn wait_for_server(&self, cancel: Option<Cancel>, has_server_timeout: bool) {
        if has_server_timeout {
            tokio::join!(self.request_cancel(cancel), sleep(ABANDONED_STATEMENT_TIMEOUT));
        } else if self.request_cancel(cancel).await {
            sleep(ABANDONED_STATEMENT_TIMEOUT).await;
        } else {
            pending::<()>().await;
        }
    }

    /// Asks the server to cancel the statement; returns whether the request was sent.
    async fn request_cancel(&self, cancel: Option<Cancel>) -> bool {
        let Some(cancel) = cancel else { return false };
        let Ok(_one) = self.cancel_permit.acquire().await else { unreachable!("the semaphore is never closed") };
        let was_sent = timeout(CANCEL_TIMEOUT, cancel()).await.unwrap_or(false);
        // If the statement's answer arrives, this future is dropped here, and the next request may be sent at once.
        sleep(CANCEL_TIMEOUT).await;
        was_sent
    }
}
