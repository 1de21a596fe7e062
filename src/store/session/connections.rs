//! The connections that a store keeps.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::deserialize::QueryableByName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::failure::within;
use super::lease::{Kept, Lease, Shelf};
use super::{Session as _, Sessions};
use crate::limits::{CONNECTION_OPENINGS_MAX, STATEMENT_TIMEOUT};
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
    deadline: Duration,
    /// The settings of each transaction, where sessions are shared with others.
    locals: Option<Arc<str>>,
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
            deadline,
            locals: None,
            backend: PhantomData,
        }
    }

    /// Runs `text` before a [`load`](Self::load) or [`execute`](Self::execute) on a connection where it did not run
    /// for `interval`.
    pub(crate) fn renewed_by(mut self, text: &str, interval: Duration) -> Self {
        self.renewal = Some((text.into(), interval));
        self
    }

    /// Runs another text once on each connection.
    pub(crate) fn with_set_up(mut self, text: Arc<str>) -> Self {
        self.set_up = Some(text);
        self
    }

    /// For a pooler that gives each transaction a session of its own choice: every statement is in a transaction, with `locals`
    /// behind its BEGIN, none is kept prepared, and a session is neither set up nor renewed.
    pub(crate) fn each_transaction_apart(mut self, locals: Arc<str>) -> Self {
        self.locals = Some(locals);
        self
    }

    /// Whether it is so.
    pub(crate) fn are_apart(&self) -> bool {
        self.locals.is_some()
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
            let mut lease = self.renewed_lease().await?;
            lease.begin_one().await?;
            let rows = lease.load(statement).await?;
            lease.end_one().await?;
            Ok(rows)
        })
        .await
    }

    /// Runs one statement that is its own transaction, and counts the rows it changed.
    pub(crate) async fn execute(&self, statement: Statement<DB>) -> Result<usize, StoreError> {
        self.within(async {
            let mut lease = self.renewed_lease().await?;
            lease.begin_one().await?;
            let changed = lease.execute(statement).await?;
            lease.end_one().await?;
            Ok(changed)
        })
        .await
    }

    /// Runs a [`load`](Self::load) that needs no renewal: an idle store asks for the next due row and nothing else.
    pub(crate) async fn poll<T>(&self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        self.within(async {
            let mut lease = self.lease().await?;
            lease.begin_one().await?;
            let rows = lease.load(statement).await?;
            lease.end_one().await?;
            Ok(rows)
        })
        .await
    }

    async fn renewed_lease(&self) -> Result<Lease<DB, P::Session>, StoreError> {
        let mut lease = self.lease().await?;
        if let Some((text, interval)) = &self.renewal
            && !self.are_apart()
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
                return Ok(Lease::new(kept, &self.shelf));
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
    /// half the throughput).
    fn open(&self, permit: OwnedSemaphorePermit) -> JoinHandle<Result<(), StoreError>> {
        let (pool, shelf, set_up) = (Arc::clone(&self.pool), Arc::clone(&self.shelf), self.set_up.clone());
        let (deadline, locals) = (self.deadline, self.locals.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let opened = within(deadline, async {
                let mut session = pool.open(deadline).await.map_err(StoreError::Unreachable)?;
                if locals.is_some() {
                    session.keep_nothing_prepared();
                }
                // What a set-up sets would stay on a shared session, for others.
                let set_up = set_up.filter(|_| locals.is_none());
                let mut lease = Lease::new(Kept::new(session, locals), &shelf);
                if let Some(text) = &set_up {
                    lease.batch(text).await?;
                }
                Ok(lease)
            });
            opened.await.map(Lease::give_back)
        })
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
