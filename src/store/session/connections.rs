//! The connections that a store keeps.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::deserialize::QueryableByName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::caution::Caution;
use super::failure::within;
use super::lease::{Kept, Lease, Shelf};
use super::{Session, Sessions};
use crate::limits::{CONNECTION_OPENINGS_MAX, STATEMENT_TIMEOUT, UNANSWERED_MAX};
use crate::store::StoreError;
use crate::store::statement::{Dialect, Statement};

/// The connections of one store: taken from the pool when a call finds none free, kept between calls.
///
/// One stack for all, not some per kind of call: any number of connections that the pool has is enough then, and the
/// connection used last, whose statements are prepared, is used next.
pub(crate) struct Connections<DB: Dialect, P: Sessions<DB>> {
    shelf: Arc<Shelf<P::Session>>,
    pool: Arc<P>,
    openings: Arc<Semaphore>,
    set_up: Option<Arc<str>>,
    renewal: Option<(Arc<str>, Duration)>,
    caution: Option<Caution>,
    /// Whether each transaction may have another session of the server, which others use before and after.
    shares_sessions: bool,
    deadline: Duration,
    backend: PhantomData<fn() -> DB>,
}

impl<DB: Dialect, P: Sessions<DB>> Connections<DB, P> {
    /// Connections from `pool`, on each of which `set_up` runs once. What it sets is not undone: they are closed in
    /// the end, and never go back to the pool.
    pub(crate) fn new(pool: P, set_up: Option<Arc<str>>) -> Self {
        let deadline = STATEMENT_TIMEOUT;
        Self {
            shelf: Arc::new(Shelf::new()),
            pool: Arc::new(pool),
            openings: Arc::new(Semaphore::new(CONNECTION_OPENINGS_MAX)),
            set_up,
            renewal: None,
            caution: None,
            shares_sessions: false,
            deadline,
            backend: PhantomData,
        }
    }

    /// Runs `text` before a [`load`](Self::load) or [`execute`](Self::execute) on a connection where it did not run
    /// for `interval`.
    pub(crate) fn renewed_by(mut self, text: &str, interval: Duration) -> Self {
        self.renewal = Some((text.into(), interval));
        self
    }

    /// Puts a single statement in a transaction that `begin` opens, with time-outs of the server's, as long as one was given up not
    /// long ago, and always where sessions are shared; for databases where a set-up cannot say so.
    pub(crate) fn cautious_by(mut self, begin: Arc<str>) -> Self {
        self.caution = Some(Caution::new(begin, self.shares_sessions));
        self
    }

    /// For a pooler that gives each transaction a session of its own choice. Nothing is left in one: no set-up, no renewal, no prepared
    /// statement. What [`cautious_by`](Self::cautious_by) says afterwards begins every single statement.
    pub(crate) fn sharing_sessions(mut self) -> Self {
        (self.set_up, self.renewal) = (None, None);
        self.shares_sessions = true;
        self
    }

    /// Whether it is so.
    pub(crate) fn shares_sessions(&self) -> bool {
        self.shares_sessions
    }

    /// Runs another text once on each connection.
    pub(crate) fn with_set_up(mut self, text: Arc<str>) -> Self {
        self.set_up = Some(text);
        self
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

    /// Bounds a call in time. The lease in it is dropped when the time is over, and its connection closed as soon as the server has
    /// answered.
    pub(crate) async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let result = within(self.deadline, call).await;
        if let Some(caution) = &self.caution {
            caution.note(&result);
        }
        result
    }

    /// Runs one statement that is its own transaction, and reads its rows.
    pub(crate) async fn load<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.within(async { self.load_on(self.renewed_lease().await?, statement).await }).await
    }

    /// Runs one statement that is its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(&self, statement: Statement<DB>) -> Result<usize, StoreError> {
        self.within(async {
            let mut lease = self.renewed_lease().await?;
            let begun = self.begin_cautiously(&mut lease).await?;
            let changed = lease.execute(statement).await?;
            finish(lease, begun).await?;
            Ok(changed)
        })
        .await
    }

    /// Runs a [`load`](Self::load) that needs no renewal: an idle store asks for the next due row and nothing else.
    pub(crate) async fn poll<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.within(async { self.load_on(self.lease().await?, statement).await }).await
    }

    async fn load_on<T>(&self, mut lease: Lease<DB, P::Session>, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        let begun = self.begin_cautiously(&mut lease).await?;
        let rows = lease.load(statement).await?;
        finish(lease, begun).await?;
        Ok(rows)
    }

    /// Begins a transaction with time-outs where caution is due; says whether it did.
    async fn begin_cautiously(&self, lease: &mut Lease<DB, P::Session>) -> Result<bool, StoreError> {
        let Some(begin) = self.caution.as_ref().and_then(Caution::begin) else { return Ok(false) };
        lease.begin(begin).await?;
        Ok(true)
    }

    async fn renewed_lease(&self) -> Result<Lease<DB, P::Session>, StoreError> {
        let mut lease = self.lease().await?;
        if let Some((text, interval)) = &self.renewal
            && lease.kept.renewed_at.elapsed() >= *interval
        {
            lease.batch(text).await?;
            lease.kept.renewed_at = Instant::now();
        }
        Ok(lease)
    }

    /// A connection, and the right to use it until the lease is given back or dropped.
    pub(crate) async fn lease(&self) -> Result<Lease<DB, P::Session>, StoreError> {
        let mut opening = None;
        loop {
            if let Some(kept) = self.shelf.take() {
                return Ok(Lease::new(kept, &self.shelf, self.deadline));
            }
            // A pool with fewer connections than calls gives none as long as all lie on the shelf or are in use here.
            tokio::select! {
                biased;
                () = self.shelf.returned.notified() => {}
                opened = self.opened(&mut opening) => opened?,
            }
        }
    }

    /// Waits until an opening has put a connection on the shelf. Cancel safe.
    async fn opened(&self, opening: &mut Option<JoinHandle<Result<(), StoreError>>>) -> Result<(), StoreError> {
        if opening.is_none() {
            let Ok(permit) = Arc::clone(&self.openings).acquire_owned().await else {
                unreachable!("the semaphore is never closed")
            };
            self.shelf.unanswered.room().await;
            if !self.shelf.is_empty() {
                return Ok(());
            }
            *opening = Some(self.open(permit));
        }
        let Some(under_way) = opening else { return Ok(()) };
        let opened = under_way.await;
        *opening = None;
        opened.map_err(|panicked| StoreError::Unreachable(panicked.into()))?
    }

    /// Opens a connection in a task of its own, which nothing cancels: a caller that is served by another's connection
    /// meanwhile would throw a half-open one away, and under load that repeats with every call (130 times a second, at
    /// half the throughput). Nor does the caller's deadline: a server that stands still would find one more of them for each.
    fn open(&self, permit: OwnedSemaphorePermit) -> JoinHandle<Result<(), StoreError>> {
        let (pool, shelf, set_up) = (Arc::clone(&self.pool), Arc::clone(&self.shelf), self.set_up.clone());
        let (deadline, shares_sessions) = (self.deadline, self.shares_sessions);
        tokio::spawn(async move {
            let _permit = permit;
            let opened = within(UNANSWERED_MAX.max(deadline), async {
                let mut session = pool.open(deadline).await.map_err(StoreError::Unreachable)?;
                if shares_sessions {
                    session.keep_nothing_prepared();
                }
                let cancel = session.canceller();
                let mut lease = Lease::new(Kept::new(session, cancel), &shelf, deadline);
                if let Some(text) = &set_up {
                    lease.batch(text).await?;
                    lease.kept.ends_by_itself = true;
                }
                Ok(lease)
            });
            opened.await.map(Lease::give_back)
        })
    }
}

/// Ends a transaction where one was begun, and gives the connection back.
async fn finish<DB: Dialect, S: Session<DB>>(mut lease: Lease<DB, S>, begun: bool) -> Result<(), StoreError> {
    if begun {
        lease.commit().await?;
    }
    lease.give_back();
    Ok(())
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
