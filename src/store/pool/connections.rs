//! The connections that a store caches.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use diesel::deserialize::QueryableByName;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::connection::{CachedConnection, IdleConnections, PoolConnection};
use super::failure::{not_opened, within};
use super::places::{Place, Places};
use super::statement_timeouts::TimeoutGuard;
use super::{ConnectionPool, Session};
use crate::events::log_event;
use crate::limits::{ABANDONED_STATEMENT_TIMEOUT, CONNECTIONS_OPENING_MAX, STATEMENT_TIMEOUT};
use crate::store::sql::dialect::{Dialect, Statement};
use crate::store::{StoreError, TooFewConnections};

/// The connections of one store: taken from the pool when a call finds none free, and cached between calls.
///
/// All kinds of calls share one stack, so a pool of any size is enough. The connection used last is used next, because its
/// statements are prepared.
pub(crate) struct Connections<DB: Dialect, P: ConnectionPool<DB>> {
    idle: Arc<IdleConnections<P::Session>>,
    pool: Arc<P>,
    opening_permits: Arc<Semaphore>,
    places: Arc<Places>,
    set_up: Option<Arc<str>>,
    renewal: Option<(Arc<str>, Duration)>,
    guard: Option<TimeoutGuard>,
    /// Whether sessions are shared: each transaction may run in another session of the server, which others use too.
    is_transaction_pooled: bool,
    deadline: Duration,
    backend: PhantomData<fn() -> DB>,
}

impl<DB: Dialect, P: ConnectionPool<DB>> Connections<DB, P> {
    /// Connections from `pool`. `set_up` runs once on each. Nobody undoes its settings: the connections never go back to the
    /// pool, they are closed.
    pub(crate) fn new(pool: P, set_up: Option<Arc<str>>) -> Self {
        let deadline = STATEMENT_TIMEOUT;
        Self {
            idle: Arc::new(IdleConnections::new()),
            places: Arc::new(Places::new(pool.is_managed())),
            pool: Arc::new(pool),
            opening_permits: Arc::new(Semaphore::new(CONNECTIONS_OPENING_MAX)),
            set_up,
            renewal: None,
            guard: None,
            is_transaction_pooled: false,
            deadline,
            backend: PhantomData,
        }
    }

    /// Runs `text` before a [`load`](Self::load) or [`execute`](Self::execute) on a connection where it has not run for `interval`.
    pub(crate) fn with_renewal(mut self, text: &str, interval: Duration) -> Self {
        self.renewal = Some((text.into(), interval));
        self
    }

    /// Wraps a single statement in a transaction that `begin` opens with server time-outs: for a while after a call was abandoned,
    /// and always if sessions are shared. For databases where `set_up` cannot set them.
    pub(crate) fn guarded_by(mut self, begin: Arc<str>) -> Self {
        self.guard = Some(TimeoutGuard::new(begin, self.is_transaction_pooled));
        self
    }

    /// For a pooler that chooses a session for each transaction. Nothing is left in a session: no set-up, no renewal, no prepared
    /// statement. Every single statement begins with the text of [`guarded_by`](Self::guarded_by), which must be called after this.
    pub(crate) fn with_transaction_pooling(mut self) -> Self {
        (self.set_up, self.renewal) = (None, None);
        self.is_transaction_pooled = true;
        self
    }

    /// Whether sessions are shared.
    pub(crate) fn is_transaction_pooled(&self) -> bool {
        self.is_transaction_pooled
    }

    /// Replaces the text that runs once on each connection.
    pub(crate) fn with_set_up(mut self, text: Arc<str>) -> Self {
        self.set_up = Some(text);
        self
    }

    /// Sets the deadline of every call.
    pub(crate) fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Allows as many connections as a relay can use.
    pub(crate) fn reserve(&self, needed: usize, most: usize) -> Result<(), TooFewConnections> {
        self.places.reserve(self.pool.size_max(), needed, most)
    }

    /// The deadline of every call.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Limits a call's time. At the deadline the connection in it is dropped, and closed once the server has answered.
    pub(crate) async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = within(self.deadline, call).await;
        if let Some(guard) = &self.guard {
            guard.record(&result);
        }
        result
    }

    /// Runs one statement as its own transaction, and reads its rows.
    pub(crate) async fn load<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.within(async { self.load_on(self.acquire_renewed().await?, statement).await }).await
    }

    /// Runs one statement as its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(&self, statement: Statement<DB>) -> Result<usize, StoreError> {
        self.within(async {
            let mut conn = self.acquire_renewed().await?;
            let begun = self.begin_guarded(&mut conn).await?;
            let changed = conn.execute(statement).await?;
            finish(conn, begun).await?;
            Ok(changed)
        })
        .await
    }

    /// Runs a call of one statement, which is its own transaction.
    pub(crate) async fn run_alone<T>(
        &self,
        call: impl for<'l> FnOnce(&'l mut PoolConnection<DB, P::Session>) -> BoxFuture<'l, Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.within(async {
            let mut conn = self.acquire_renewed().await?;
            let begun = self.begin_guarded(&mut conn).await?;
            let ran = call(&mut conn).await?;
            finish(conn, begun).await?;
            Ok(ran)
        })
        .await
    }

    /// Like [`load`](Self::load), without a renewal: an idle store only polls.
    pub(crate) async fn poll<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.within(async { self.load_on(self.acquire().await?, statement).await }).await
    }

    async fn load_on<T>(
        &self,
        mut conn: PoolConnection<DB, P::Session>,
        statement: Statement<DB>,
    ) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        let begun = self.begin_guarded(&mut conn).await?;
        let rows = conn.load(statement).await?;
        finish(conn, begun).await?;
        Ok(rows)
    }

    /// Begins a transaction with time-outs if one is needed; returns whether it did.
    async fn begin_guarded(&self, conn: &mut PoolConnection<DB, P::Session>) -> Result<bool, StoreError> {
        let Some(begin) = self.guard.as_ref().and_then(TimeoutGuard::begin) else { return Ok(false) };
        conn.begin(begin).await?;
        Ok(true)
    }

    /// Takes a connection whose plans are of this moment.
    pub(crate) async fn acquire_renewed(&self) -> Result<PoolConnection<DB, P::Session>, StoreError> {
        let mut conn = self.acquire().await?;
        if let Some((text, interval)) = &self.renewal
            && conn.cached.renewed_at.elapsed() >= *interval
        {
            conn.batch(text).await?;
            conn.cached.renewed_at = Instant::now();
        }
        Ok(conn)
    }

    /// Takes a connection, which is in use until it is released or dropped.
    pub(crate) async fn acquire(&self) -> Result<PoolConnection<DB, P::Session>, StoreError> {
        let mut opening = None;
        loop {
            if let Some(cached) = self.idle.take() {
                return Ok(PoolConnection::new(cached, &self.idle, self.deadline));
            }
            // If the pool has fewer connections than there are calls, it provides none while all are cached or in use here.
            tokio::select! {
                biased;
                () = self.idle.returned.notified() => {}
                opened = self.wait_for_opening(&mut opening) => opened?,
            }
        }
    }

    /// Waits until an opened connection is among the idle ones. Cancel safe.
    async fn wait_for_opening(
        &self,
        opening: &mut Option<JoinHandle<Result<(), StoreError>>>,
    ) -> Result<(), StoreError> {
        if opening.is_none() {
            let place = self.places.take().await;
            let Ok(permit) = Arc::clone(&self.opening_permits).acquire_owned().await else {
                unreachable!("the semaphore is never closed")
            };
            self.idle.abandoned.wait_for_room().await;
            if !self.idle.is_empty() {
                return Ok(());
            }
            *opening = Some(self.open(place, permit));
        }
        let Some(pending) = opening else { return Ok(()) };
        let opened = pending.await;
        *opening = None;
        opened.map_err(|panicked| StoreError::Unreachable(panicked.into()))?
    }

    /// Opens a connection in its own task, which nothing cancels. Otherwise a caller that meanwhile gets another connection would
    /// discard a half-open one, under load with every call (130 times a second, at half the throughput). The caller's deadline does
    /// not cancel it either: a server that hangs would get one more connection each time.
    fn open(&self, place: Place, permit: OwnedSemaphorePermit) -> JoinHandle<Result<(), StoreError>> {
        let (pool, idle, set_up) = (Arc::clone(&self.pool), Arc::clone(&self.idle), self.set_up.clone());
        self.warn_if_shared();
        let (deadline, is_transaction_pooled) = (self.deadline, self.is_transaction_pooled);
        tokio::spawn(async move {
            let _permit = permit;
            let opened = within(ABANDONED_STATEMENT_TIMEOUT.max(deadline), async {
                let mut session = pool.open(deadline).await.map_err(not_opened)?;
                if is_transaction_pooled {
                    session.disable_statement_cache();
                }
                let cancel = session.canceller();
                let mut conn = PoolConnection::new(CachedConnection::new(session, place, cancel), &idle, deadline);
                if let Some(text) = &set_up {
                    conn.batch(text).await?;
                    conn.cached.has_server_timeout = true;
                }
                Ok(conn)
            });
            opened.await.map(PoolConnection::release)
        })
    }
}

impl<DB: Dialect, P: ConnectionPool<DB>> Connections<DB, P> {
    /// Warns once if others use the relay's pool too: in a burst the relay takes connections that they need.
    fn warn_if_shared(&self) {
        if !self.places.is_reserved() || self.idle.is_shared.load(Ordering::Relaxed) {
            return;
        }
        // This store counts the connection that is being opened. The pool does not yet.
        let ours = self.places.taken().saturating_sub(1);
        let others = self.pool.in_use().map_or(0, |in_use| in_use.saturating_sub(ours));
        if others > 0 && !self.idle.is_shared.swap(true, Ordering::Relaxed) {
            let size = self.pool.size_max();
            log_event!(POOL_SHARED, ours, others, size);
        }
    }
}

/// Ends the transaction if one was begun, and releases the connection.
async fn finish<DB: Dialect, S: Session<DB>>(mut conn: PoolConnection<DB, S>, begun: bool) -> Result<(), StoreError> {
    if begun {
        conn.commit().await?;
    }
    conn.release();
    Ok(())
}

impl<DB: Dialect, P: ConnectionPool<DB>> Drop for Connections<DB, P> {
    fn drop(&mut self) {
        self.idle.close();
    }
}

impl<DB: Dialect, P: ConnectionPool<DB>> fmt::Debug for Connections<DB, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Pools promise no Debug, and their URLs hold passwords.
        f.debug_struct("Connections").field("idle", &self.idle).finish_non_exhaustive()
    }
}
