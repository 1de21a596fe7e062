use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use diesel::QueryResult;
use diesel::deserialize::QueryableByName;
use tokio::sync::Notify;

use super::Session;
use super::failure::{Verdict, judge};
use crate::limits::CONNECTION_IDLE_MAX;
use crate::store::StoreError;
use crate::store::statement::{Dialect, Statement};

/// A connection that is kept between calls.
pub(super) struct Kept<S> {
    session: S,
    used_at: Instant,
    /// When its renewal last ran, if it has one.
    pub(super) renewed_at: Instant,
    /// The settings of each of its transactions, where its session may be another in the next.
    pub(super) locals: Option<Arc<str>>,
}

impl<S> Kept<S> {
    pub(super) fn new(session: S, locals: Option<Arc<str>>) -> Self {
        let now = Instant::now();
        Self { session, used_at: now, renewed_at: now, locals }
    }
}

/// The free connections.
pub(super) struct Shelf<S> {
    free: Mutex<Free<S>>,
    /// One came back.
    pub(super) returned: Notify,
}

struct Free<S> {
    connections: Vec<Kept<S>>,
    closed: bool,
}

impl<S> Shelf<S> {
    pub(super) fn new() -> Self {
        let free = Free { connections: Vec::new(), closed: false };
        Self { free: Mutex::new(free), returned: Notify::new() }
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
/// call, it closes the connection: whatever transaction was open ends with it.
pub(crate) struct Lease<DB: Dialect, S: Session<DB>> {
    pub(super) kept: Kept<S>,
    shelf: Arc<Shelf<S>>,
    in_transaction: bool,
    backend: PhantomData<fn() -> DB>,
}

impl<DB: Dialect, S: Session<DB>> Lease<DB, S> {
    pub(super) fn new(kept: Kept<S>, shelf: &Arc<Shelf<S>>) -> Self {
        Self { kept, shelf: Arc::clone(shelf), in_transaction: false, backend: PhantomData }
    }

    /// See [`Session::batch`].
    pub(crate) async fn batch(&mut self, text: &Arc<str>) -> Result<(), StoreError> {
        let result = self.kept.session.batch(Arc::clone(text)).await;
        self.judged(result).await
    }

    /// See [`Session::begin`]. The text's own settings win over those of the connection.
    pub(crate) async fn begin(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let text = match &self.kept.locals {
            Some(locals) => with_locals(&text, locals),
            None => text,
        };
        let result = self.kept.session.begin(text).await;
        self.in_transaction = result.is_ok();
        self.judged(result).await
    }

    /// See [`Session::load`].
    pub(crate) async fn load<T>(&mut self, statement: Statement<DB>) -> Result<Vec<T>, StoreError>
    where
        T: QueryableByName<DB> + Send + 'static,
    {
        let result = self.kept.session.load(statement).await;
        self.judged(result).await
    }

    /// See [`Session::execute`].
    pub(crate) async fn execute(&mut self, statement: Statement<DB>) -> Result<usize, StoreError> {
        let result = self.kept.session.execute(statement).await;
        self.judged(result).await
    }

    /// Commits, and nothing else.
    pub(crate) async fn commit(&mut self) -> Result<(), StoreError> {
        self.commit_by("COMMIT".into()).await
    }

    /// See [`Session::commit`].
    pub(crate) async fn commit_by(&mut self, text: Arc<str>) -> Result<(), StoreError> {
        let result = self.kept.session.commit(text).await;
        self.in_transaction = false;
        self.judged(result).await
    }

    /// Opens a transaction for one statement, where that needs one.
    pub(super) async fn begin_one(&mut self) -> Result<(), StoreError> {
        match self.kept.locals {
            Some(_) => self.begin("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE".into()).await,
            None => Ok(()),
        }
    }

    /// Ends it, and keeps the connection.
    pub(super) async fn end_one(mut self) -> Result<(), StoreError> {
        if self.in_transaction {
            self.commit().await?;
        }
        self.give_back();
        Ok(())
    }

    /// Keeps the connection for the next call, unless a transaction is open on it.
    pub(crate) fn give_back(self) {
        if !self.in_transaction {
            self.shelf.put(self.kept);
        }
    }

    async fn judged<T>(&mut self, result: QueryResult<T>) -> Result<T, StoreError> {
        let error = match result.map_err(judge) {
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
        let session = &mut self.kept.session;
        let answer =
            if self.in_transaction { session.rollback().await } else { session.batch("SELECT 1".into()).await };
        answer.is_ok()
    }
}

/// Behind BEGIN, and before what follows it.
fn with_locals(text: &str, locals: &str) -> Arc<str> {
    match text.split_once(';') {
        Some((begin, rest)) => format!("{begin}; {locals};{rest}").into(),
        None => format!("{text}; {locals}").into(),
    }
}

impl<DB: Dialect, S: Session<DB>> fmt::Debug for Lease<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("in_transaction", &self.in_transaction).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::with_locals;

    #[test]
    fn settings_of_the_connection_come_before_those_of_the_text() {
        assert_eq!(&*with_locals("BEGIN", "SET LOCAL a = 1"), "BEGIN; SET LOCAL a = 1");
        assert_eq!(
            &*with_locals("BEGIN; SET LOCAL a = 2", "SET LOCAL a = 1"),
            "BEGIN; SET LOCAL a = 1; SET LOCAL a = 2"
        );
    }
}
