use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::QueryResult;
use diesel::deserialize::QueryableByName;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::call::{AbandonedCalls, Call};
use super::failure::{ErrorClass, classify, connection_lost};
use super::places::Place;
use super::{Cancel, Session};
use crate::limits::{CONNECTION_IDLE_MAX, SHARED_CONNECTION_IDLE_MAX};
use crate::store::StoreError;
use crate::store::sql::dialect::{Dialect, Statement};

/// A connection that is cached between calls.
pub(super) struct CachedConnection<S> {
    /// Absent while a call runs. If that call is dropped, it stays absent.
    session: Option<Placed<S>>,
    cancel: Option<Cancel>,
    /// Whether its set-up gave the server a statement time-out.
    pub(super) has_server_timeout: bool,
    used_at: Instant,
    /// When its renewal last ran, if it has one.
    pub(super) renewed_at: Instant,
}

/// A connection, and its place, which it keeps until it is closed.
struct Placed<S> {
    session: S,
    _place: Place,
}

impl<S> CachedConnection<S> {
    pub(super) fn new(session: S, place: Place, cancel: Option<Cancel>) -> Self {
        let now = Instant::now();
        Self {
            session: Some(Placed { session, _place: place }),
            cancel,
            has_server_timeout: false,
            used_at: now,
            renewed_at: now,
        }
    }
}

/// The free connections, and the abandoned ones that are not closed yet.
pub(super) struct IdleConnections<S> {
    state: Mutex<IdleState<S>>,
    /// Notified when a connection is released.
    pub(super) returned: Notify,
    pub(super) abandoned: Arc<AbandonedCalls>,
    /// Whether others use the same pool and may need the idle connections.
    pub(super) is_shared: AtomicBool,
}

struct IdleState<S> {
    connections: Vec<CachedConnection<S>>,
    closed: bool,
}

impl<S> IdleConnections<S> {
    pub(super) fn new() -> Self {
        let state = IdleState { connections: Vec::new(), closed: false };
        Self {
            state: Mutex::new(state),
            returned: Notify::new(),
            abandoned: Arc::default(),
            is_shared: AtomicBool::new(false),
        }
    }

    pub(super) fn take(&self) -> Option<CachedConnection<S>> {
        let idle_max = if self.is_shared.load(Relaxed) { SHARED_CONNECTION_IDLE_MAX } else { CONNECTION_IDLE_MAX };
        let mut state = self.lock();
        let stale: Vec<_> = state.connections.extract_if(.., |cached| cached.used_at.elapsed() > idle_max).collect();
        let taken = state.connections.pop();
        // Not under the lock: closing sends a message over the network.
        drop(state);
        drop(stale);
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().connections.is_empty()
    }

    fn put(&self, mut cached: CachedConnection<S>) {
        cached.used_at = Instant::now();
        let mut state = self.lock();
        if !state.closed {
            state.connections.push(cached);
            drop(state);
            self.returned.notify_one();
        }
    }

    fn clear(&self) {
        let connections = mem::take(&mut self.lock().connections);
        drop(connections);
    }

    /// Stops caching connections.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.clear();
    }

    fn lock(&self) -> MutexGuard<'_, IdleState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for IdleConnections<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleConnections").field("len", &self.lock().connections.len()).finish_non_exhaustive()
    }
}

/// A connection in use. If it is dropped without [`release`](Self::release), as after an error, a time-out or a cancelled call, it
/// is closed once the server has answered. That also ends any open transaction.
pub struct PoolConnection<DB: Dialect, S: Session<DB>> {
    pub(super) cached: CachedConnection<S>,
    idle: Arc<IdleConnections<S>>,
    /// The time limit of a call.
    deadline: Duration,
    in_transaction: bool,
    backend: PhantomData<fn() -> DB>,
}

impl<DB: Dialect, S: Session<DB>> PoolConnection<DB, S> {
    pub(super) fn new(cached: CachedConnection<S>, idle: &Arc<IdleConnections<S>>, deadline: Duration) -> Self {
        Self { cached, idle: Arc::clone(idle), deadline, in_transaction: false, backend: PhantomData }
    }

    /// See [`Session::batch`].
    pub(crate) async fn batch(&mut self, text: &Arc<str>) -> Result<(), StoreError> {
        let text = Arc::clone(text);
        let result = self.call(|session| Box::pin(session.batch(text))).await;
        self.classified(result).await
    }

    /// See [`Session::begin`].
    pub(crate) async fn begin(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let result = self.call(|session| Box::pin(session.begin(text))).await;
        self.in_transaction = result.is_ok();
        self.classified(result).await
    }

    /// See [`Session::load`].
    pub(crate) async fn load<T>(&mut self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        let result = self.call(|session| Box::pin(session.load(statement))).await;
        self.classified(result).await
    }

    /// See [`Session::execute`].
    pub(crate) async fn execute(&mut self, statement: Statement<DB>) -> Result<usize, StoreError> {
        let result = self.call(|session| Box::pin(session.execute(statement))).await;
        self.classified(result).await
    }

    /// Commits with a plain COMMIT.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        self.commit_by("COMMIT".into()).await
    }

    /// See [`Session::commit`].
    pub(crate) async fn commit_by(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let result = self.call(|session| Box::pin(session.commit(text))).await;
        self.in_transaction = false;
        self.classified(result).await
    }

    /// Caches the connection for the next call, unless a transaction is open on it.
    pub(crate) fn release(self) {
        if !self.in_transaction && self.cached.session.is_some() {
            self.idle.put(self.cached);
        }
    }

    async fn classified<T>(&mut self, result: QueryResult<T>) -> Result<T, StoreError> {
        let error = match result.map_err(|error| classify(error, self.deadline)) {
            Ok(value) => return Ok(value),
            Err(ErrorClass::Known(error)) => error,
            Err(ErrorClass::Unclear(error)) if self.still_works().await => StoreError::Statement(error.into()),
            Err(ErrorClass::Unclear(error)) => StoreError::Unreachable(error.into()),
        };
        if matches!(error, StoreError::Unreachable(_)) {
            // If one connection is dead, the others most likely are, too.
            self.idle.clear();
        }
        Err(error)
    }

    /// Whether the connection still works. After a failed statement an open transaction accepts only a rollback.
    async fn still_works(&mut self) -> bool {
        let response = match self.in_transaction {
            true => self.call(|session| Box::pin(session.rollback())).await,
            false => self.call(|session| Box::pin(session.batch("SELECT 1".into()))).await,
        };
        response.is_ok()
    }

    /// Runs a call. If dropped, the call goes on until the server has answered, and then the connection is closed.
    async fn call<T: Send + 'static>(
        &mut self,
        call: impl for<'s> FnOnce(&'s mut S) -> BoxFuture<'s, QueryResult<T>> + Send + 'static,
    ) -> QueryResult<T> {
        let mut placed = self.cached.session.take().ok_or_else(|| connection_lost("an earlier call was cancelled"))?;
        let running = Box::pin(async move {
            let result = call(&mut placed.session).await;
            (placed, result)
        });
        let has_server_timeout = self.in_transaction || self.cached.has_server_timeout;
        let call = Call::new(running, Arc::clone(&self.idle.abandoned), self.cached.cancel.clone(), has_server_timeout);
        let (placed, result) = call.await;
        self.cached.session = Some(placed);
        result
    }
}

impl<DB: Dialect, S: Session<DB>> fmt::Debug for PoolConnection<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolConnection").field("in_transaction", &self.in_transaction).finish_non_exhaustive()
    }
}
