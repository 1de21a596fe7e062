//! The connections that a store keeps.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::deserialize::QueryableByName;
use tokio::sync::Notify;

use super::failure::{Verdict, judge, within};
use super::{Session, Sessions};
use crate::limits::Limits;
use crate::store::StoreError;
use crate::store::statement::{Dialect, Statement};

/// How long a kept connection may lie idle. A minute is below every firewall's and server's own bound that we know of:
/// one that was cut silently would cost the next call its whole deadline.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The connections of one store: taken from the pool when a call finds none free, kept between calls.
///
/// One stack for all, not some per kind of call: any number of connections that the pool has is enough then, and the
/// connection used last, whose statements are prepared, is used next.
pub(crate) struct Connections<DB: Dialect, P: Sessions<DB>> {
    shelf: Arc<Shelf<P::Session>>,
    pool: P,
    set_up: Option<Arc<str>>,
    deadline: Duration,
}

impl<DB: Dialect, P: Sessions<DB>> Connections<DB, P> {
    /// Connections from `pool`, on each of which `set_up` runs once. What it sets is not undone: they are closed in
    /// the end, and never go back to the pool.
    pub(crate) fn new(pool: P, set_up: Option<Arc<str>>) -> Self {
        let deadline = Limits::default().statement_timeout;
        Self { shelf: Arc::new(Shelf::new()), pool, set_up, deadline }
    }

    /// Bounds every call to `deadline`.
    pub(crate) fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What bounds a call.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Bounds a call in time. The lease in it is dropped when the time is over, and with it the connection closed.
    pub(crate) async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        within(self.deadline, call).await
    }

    /// Runs one statement that is its own transaction, and reads its rows.
    pub(crate) async fn load<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.within(async {
            let mut lease = self.lease().await?;
            let rows = lease.load(statement).await?;
            lease.give_back();
            Ok(rows)
        })
        .await
    }

    /// Runs one statement that is its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(&self, statement: Statement<DB>) -> Result<usize, StoreError> {
        self.within(async {
            let mut lease = self.lease().await?;
            let changed = lease.execute(statement).await?;
            lease.give_back();
            Ok(changed)
        })
        .await
    }

    /// A connection, and the right to use it until the lease is given back or dropped.
    pub(crate) async fn lease(&self) -> Result<Lease<DB, P::Session>, StoreError> {
        loop {
            if let Some(session) = self.shelf.take() {
                return Ok(self.lease_of(session));
            }
            // A pool with fewer connections than calls gives none as long as all lie on the shelf or are in use here.
            tokio::select! {
                biased;
                () = self.shelf.returned.notified() => {}
                opened = self.open() => return opened,
            }
        }
    }

    async fn open(&self) -> Result<Lease<DB, P::Session>, StoreError> {
        let session = self.pool.open(self.deadline).await.map_err(StoreError::Unreachable)?;
        let mut lease = self.lease_of(session);
        if let Some(set_up) = &self.set_up {
            lease.batch(set_up).await?;
        }
        Ok(lease)
    }

    fn lease_of(&self, session: P::Session) -> Lease<DB, P::Session> {
        Lease { session: Some(session), shelf: Arc::clone(&self.shelf), in_transaction: false, backend: PhantomData }
    }
}

impl<DB: Dialect, P: Sessions<DB>> Drop for Connections<DB, P> {
    fn drop(&mut self) {
        self.shelf.close();
    }
}

impl<DB: Dialect, P: Sessions<DB>> fmt::Debug for Connections<DB, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Pools promise no Debug, and their URLs hold passwords.
        f.debug_struct("Connections").field("shelf", &self.shelf).finish_non_exhaustive()
    }
}

/// The free connections.
struct Shelf<S> {
    free: Mutex<Free<S>>,
    returned: Notify,
}

struct Free<S> {
    sessions: Vec<(S, Instant)>,
    closed: bool,
}

impl<S> Shelf<S> {
    fn new() -> Self {
        let free = Free { sessions: Vec::new(), closed: false };
        Self { free: Mutex::new(free), returned: Notify::new() }
    }

    fn take(&self) -> Option<S> {
        let mut free = self.lock();
        let stale: Vec<_> = free.sessions.extract_if(.., |(_, since)| since.elapsed() > IDLE_MAX).collect();
        let taken = free.sessions.pop();
        // Closing says goodbye over the network: not under the lock.
        drop(free);
        drop(stale);
        taken.map(|(session, _)| session)
    }

    fn put(&self, session: S) {
        let mut free = self.lock();
        if !free.closed {
            free.sessions.push((session, Instant::now()));
            drop(free);
            self.returned.notify_one();
        }
    }

    /// Where one connection was found dead the others most likely are, too.
    fn clear(&self) {
        let sessions = mem::take(&mut self.lock().sessions);
        drop(sessions);
    }

    fn close(&self) {
        self.lock().closed = true;
        self.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Free<S>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Shelf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("free", &self.lock().sessions.len()).finish_non_exhaustive()
    }
}

/// The use of one connection. Dropped without [`give_back`](Self::give_back), after an error, a time-out or a cancelled
/// call, it closes the connection: whatever transaction was open ends with it.
pub(crate) struct Lease<DB: Dialect, S: Session<DB>> {
    session: Option<S>,
    shelf: Arc<Shelf<S>>,
    in_transaction: bool,
    backend: PhantomData<fn() -> DB>,
}

impl<DB: Dialect, S: Session<DB>> Lease<DB, S> {
    /// See [`Session::batch`].
    pub(crate) async fn batch(&mut self, text: &Arc<str>) -> Result<(), StoreError> {
        let result = self.session().batch(Arc::clone(text)).await;
        self.judged(result).await
    }

    /// See [`Session::begin`].
    pub(crate) async fn begin(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let result = self.session().begin(text).await;
        self.in_transaction = result.is_ok();
        self.judged(result).await
    }

    /// See [`Session::load`].
    pub(crate) async fn load<T>(&mut self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        let result = self.session().load(statement).await;
        self.judged(result).await
    }

    /// See [`Session::execute`].
    pub(crate) async fn execute(&mut self, statement: Statement<DB>) -> Result<usize, StoreError> {
        let result = self.session().execute(statement).await;
        self.judged(result).await
    }

    /// See [`Session::commit`].
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        let result = self.session().commit().await;
        self.in_transaction = false;
        self.judged(result).await
    }

    /// Keeps the connection for the next call.
    pub(crate) fn give_back(mut self) {
        if let Some(session) = self.session.take_if(|_| !self.in_transaction) {
            self.shelf.put(session);
        }
    }

    fn session(&mut self) -> &mut S {
        let Some(session) = &mut self.session else { unreachable!("only give_back takes it, and takes the lease too") };
        session
    }

    async fn judged<T>(&mut self, result: diesel::QueryResult<T>) -> Result<T, StoreError> {
        let error = match result.map_err(judge) {
            Ok(value) => return Ok(value),
            Err(Verdict::Known(error)) => error,
            Err(Verdict::Unclear(error)) if self.answers().await => StoreError::Statement(error.into()),
            Err(Verdict::Unclear(error)) => StoreError::Unreachable(error.into()),
        };
        if matches!(error, StoreError::Unreachable(_)) {
            self.shelf.clear();
        }
        Err(error)
    }

    /// Whether the connection is still there: after a failed statement an open transaction takes a rollback and
    /// nothing else.
    async fn answers(&mut self) -> bool {
        let in_transaction = self.in_transaction;
        let session = self.session();
        let answer = if in_transaction { session.rollback().await } else { session.batch("SELECT 1".into()).await };
        answer.is_ok()
    }
}

impl<DB: Dialect, S: Session<DB>> fmt::Debug for Lease<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("in_transaction", &self.in_transaction).finish_non_exhaustive()
    }
}
