use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel::deserialize::QueryableByName;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::call::{Call, Unanswered};
use super::failure::{Verdict, gone, judge};
use super::{Cancel, Session};
use crate::limits::CONNECTION_IDLE_MAX;
use crate::store::StoreError;
use crate::store::statement::{Dialect, Statement};

/// A connection that is kept between calls.
pub(super) struct Kept<S> {
    /// Away while a call runs, and for good once that call was given up.
    session: Option<S>,
    cancel: Option<Cancel>,
    /// Whether its set-up told the server how long a statement may last.
    pub(super) ends_by_itself: bool,
    used_at: Instant,
    /// When its renewal last ran, if it has one.
    pub(super) renewed_at: Instant,
}

impl<S> Kept<S> {
    pub(super) fn new(session: S, cancel: Option<Cancel>) -> Self {
        let now = Instant::now();
        Self { session: Some(session), cancel, ends_by_itself: false, used_at: now, renewed_at: now }
    }
}

/// The free connections, and how many were given up and have not ended.
pub(super) struct Shelf<S> {
    free: Mutex<Free<S>>,
    /// One came back.
    pub(super) returned: Notify,
    pub(super) unanswered: Arc<Unanswered>,
}

struct Free<S> {
    connections: Vec<Kept<S>>,
    closed: bool,
}

impl<S> Shelf<S> {
    pub(super) fn new() -> Self {
        let free = Free { connections: Vec::new(), closed: false };
        Self { free: Mutex::new(free), returned: Notify::new(), unanswered: Arc::default() }
    }

    pub(super) fn take(&self) -> Option<Kept<S>> {
        let mut free = self.lock();
        let stale: Vec<_> =
            free.connections.extract_if(.., |kept| kept.used_at.elapsed() > CONNECTION_IDLE_MAX).collect();
        let taken = free.connections.pop();
        // Closing says goodbye over the network: not under the lock.
        drop(free);
        drop(stale);
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().connections.is_empty()
    }

    fn put(&self, mut kept: Kept<S>) {
        kept.used_at = Instant::now();
        let mut free = self.lock();
        if !free.closed {
            free.connections.push(kept);
            drop(free);
            self.returned.notify_one();
        }
    }

    fn clear(&self) {
        let connections = mem::take(&mut self.lock().connections);
        drop(connections);
    }

    /// Keeps nothing any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Free<S>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Shelf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("free", &self.lock().connections.len()).finish_non_exhaustive()
    }
}

/// The use of one connection. Dropped without [`give_back`](Self::give_back), after an error, a time-out or a cancelled
/// call, it closes the connection, once the server has answered: whatever transaction was open ends with it.
pub(crate) struct Lease<DB: Dialect, S: Session<DB>> {
    pub(super) kept: Kept<S>,
    shelf: Arc<Shelf<S>>,
    /// What bounds a call.
    deadline: Duration,
    in_transaction: bool,
    backend: PhantomData<fn() -> DB>,
}

impl<DB: Dialect, S: Session<DB>> Lease<DB, S> {
    pub(super) fn new(kept: Kept<S>, shelf: &Arc<Shelf<S>>, deadline: Duration) -> Self {
        Self { kept, shelf: Arc::clone(shelf), deadline, in_transaction: false, backend: PhantomData }
    }

    /// See [`Session::batch`].
    pub(crate) async fn batch(&mut self, text: &Arc<str>) -> Result<(), StoreError> {
        let text = Arc::clone(text);
        let result = self.call(|session| Box::pin(session.batch(text))).await;
        self.judged(result).await
    }

    /// See [`Session::begin`].
    pub(crate) async fn begin(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let result = self.call(|session| Box::pin(session.begin(text))).await;
        self.in_transaction = result.is_ok();
        self.judged(result).await
    }

    /// See [`Session::load`].
    pub(crate) async fn load<T>(&mut self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        let result = self.call(|session| Box::pin(session.load(statement))).await;
        self.judged(result).await
    }

    /// See [`Session::execute`].
    pub(crate) async fn execute(&mut self, statement: Statement<DB>) -> Result<usize, StoreError> {
        let result = self.call(|session| Box::pin(session.execute(statement))).await;
        self.judged(result).await
    }

    /// Commits, and nothing else.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        self.commit_by("COMMIT".into()).await
    }

    /// See [`Session::commit`].
    pub(crate) async fn commit_by(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let result = self.call(|session| Box::pin(session.commit(text))).await;
        self.in_transaction = false;
        self.judged(result).await
    }

    /// Keeps the connection for the next call, unless a transaction is open on it.
    pub(crate) fn give_back(self) {
        if !self.in_transaction && self.kept.session.is_some() {
            self.shelf.put(self.kept);
        }
    }

    async fn judged<T>(&mut self, result: QueryResult<T>) -> Result<T, StoreError> {
        let error = match result.map_err(|error| judge(error, self.deadline)) {
            Ok(value) => return Ok(value),
            Err(Verdict::Known(error)) => error,
            Err(Verdict::Unclear(error)) if self.answers().await => StoreError::Statement(error.into()),
            Err(Verdict::Unclear(error)) => StoreError::Unreachable(error.into()),
        };
        if matches!(error, StoreError::Unreachable(_)) {
            // Where one connection was found dead the others most likely are, too.
            self.shelf.clear();
        }
        Err(error)
    }

    /// Whether the connection is still there: after a failed statement an open transaction takes a rollback and
    /// nothing else.
    async fn answers(&mut self) -> bool {
        let answer = match self.in_transaction {
            true => self.call(|session| Box::pin(session.rollback())).await,
            false => self.call(|session| Box::pin(session.batch("SELECT 1".into()))).await,
        };
        answer.is_ok()
    }

    /// Runs a call. Dropped in its middle, it goes on until the server has answered, and the connection is closed then.
    async fn call<T: Send + 'static>(
        &mut self,
        call: impl for<'s> FnOnce(&'s mut S) -> BoxFuture<'s, QueryResult<T>> + Send + 'static,
    ) -> QueryResult<T> {
        let mut session = self.kept.session.take().ok_or_else(|| gone("an earlier call was given up"))?;
        let running = Box::pin(async move {
            let result = call(&mut session).await;
            (session, result)
        });
        let ends_by_itself = self.in_transaction || self.kept.ends_by_itself;
        let call = Call::new(running, Arc::clone(&self.shelf.unanswered), self.kept.cancel.clone(), ends_by_itself);
        let (session, result) = call.await;
        self.kept.session = Some(session);
        result
    }
}

impl<DB: Dialect, S: Session<DB>> fmt::Debug for Lease<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("in_transaction", &self.in_transaction).finish_non_exhaustive()
    }
}
