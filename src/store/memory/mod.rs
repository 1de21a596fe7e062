//! The reference store: rows in memory, with a clock that tests can move and faults that they can inject.

mod admin;
mod faults;
mod history;
mod lanes;
mod options;
mod state;
mod store;

pub use faults::{Call, Fault};
pub use options::InsertOptions;
pub use store::MemoryClaim;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use self::faults::Faults;
use self::state::{MemoryRow, Session, State};
use super::{ClaimMode, DeadLetterRow, LiveRow, RowKey};
use crate::message::Envelope;

/// A store in memory, for tests. It does what the documentation of [`Store`](super::Store) says, and nothing else.
///
/// Clones share their rows. Claims lock their rows ([`ClaimMode::Locked`]), or lease them with [`leasing`](Self::leasing).
///
/// The database's clock starts at the machine's time and then runs with tokio's. Under `start_paused` it moves only as the
/// runtime's does; [`advance`](Self::advance) moves it further.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use diesel_outbox::store::{InsertOptions, MemoryStore};
/// use diesel_outbox::{Envelope, MessageId};
///
/// let store = MemoryStore::new();
/// let envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
/// let key = store.insert(envelope, InsertOptions::default().leased_for(Duration::from_secs(3)));
/// assert_eq!(store.live_rows()[0].key, key);
/// ```
#[derive(Debug, Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    mode: ClaimMode,
    state: Mutex<State>,
    faults: Mutex<Faults>,
    /// Notified whenever a lock is released or the clock is moved.
    changed: Notify,
}

impl MemoryStore {
    /// An empty store that holds claimed rows by locks, as PostgreSQL and MySQL do.
    #[expect(clippy::new_without_default, reason = "two ways to hold rows, and neither is the obvious one")]
    pub fn new() -> Self {
        Self::with_mode(ClaimMode::Locked)
    }

    /// An empty store that holds claimed rows by leases, as SQLite does.
    pub fn leasing() -> Self {
        Self::with_mode(ClaimMode::Leased)
    }

    fn with_mode(mode: ClaimMode) -> Self {
        let inner = Inner { mode, state: Mutex::new(State::new()), faults: Mutex::default(), changed: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// The database's clock.
    pub fn now(&self) -> SystemTime {
        self.state().clock.now().as_system_time()
    }

    /// Moves the database's clock forward, in addition to the time that passes.
    pub fn advance(&self, by: Duration) {
        self.state().clock.advance(by);
        self.inner.changed.notify_waiters();
    }

    /// Writes a committed row as enqueue does. The database's clock sets its `created_at`.
    ///
    /// # Panics
    /// When a live row has this message id.
    pub fn insert(&self, envelope: Envelope, options: InsertOptions) -> RowKey {
        let row = self.state().prepare(envelope, options);
        self.state().commit(row)
    }

    /// Writes a row in a transaction that stays open: nobody sees it before [`PendingRow::commit`]. Dropping it rolls back.
    pub fn insert_uncommitted(&self, envelope: Envelope, options: InsertOptions) -> PendingRow {
        let row = self.state().prepare_uncommitted(envelope, options);
        PendingRow { open: OpenTransaction { id: row.key.id, store: self.clone() }, row }
    }

    /// Locks a row as another session would; `None` if it is missing or locked already.
    pub fn lock(&self, key: RowKey) -> Option<RowLock> {
        let mut state = self.state();
        let session = state.begin(None);
        if state.lock(key, session) {
            Some(RowLock { session, store: self.clone() })
        } else {
            state.end(session);
            None
        }
    }

    /// Corrupts a row, so that it is read as [`Loaded::Poisoned`](super::Loaded::Poisoned); `false` if it is missing.
    pub fn poison(&self, key: RowKey) -> bool {
        self.state().row_mut(key).map(|row| row.poisoned = true).is_some()
    }

    /// The live rows, by id.
    pub fn live_rows(&self) -> Vec<LiveRow> {
        self.state().live_rows()
    }

    /// The dead letters, in the order they died.
    pub fn dead_letter_rows(&self) -> Vec<DeadLetterRow> {
        self.state().dead.iter().map(|dead| dead.row.clone()).collect()
    }

    /// Makes the next call of a kind fail or be slow. Several faults apply in the order in which they were given.
    ///
    /// ```
    /// use diesel_outbox::store::{Call, Fault, PollSpec, MemoryStore, Store, StoreError};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (store, everything) = (MemoryStore::new(), PollSpec::everything([]));
    /// store.inject(Call::Poll, Fault::Refused(StoreError::Conflict("deadlock".into())));
    /// assert!(store.poll(&everything).await.unwrap_err().is_retriable());
    /// assert!(store.poll(&everything).await.is_ok());
    /// # });
    /// ```
    pub fn inject(&self, call: Call, fault: Fault) {
        self.faults().inject(call, fault);
    }

    /// Makes the database unreachable for every call, or reachable again. Open claims lose their locks, as when sessions die; their
    /// close fails.
    pub fn set_down(&self, down: bool) {
        self.faults().set_down(down);
        if down {
            self.state().end_all_sessions();
            self.inner.changed.notify_waiters();
        }
    }

    /// How often a call was made, including calls that failed.
    pub fn calls(&self, call: Call) -> u64 {
        self.faults().calls(call)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, session: Session) {
        self.state().end(session);
        self.inner.changed.notify_waiters();
    }
}

/// A row of an open transaction.
#[derive(Debug)]
pub struct PendingRow {
    row: MemoryRow,
    open: OpenTransaction,
}

/// Counts as open until it is dropped.
#[derive(Debug)]
struct OpenTransaction {
    id: i64,
    store: MemoryStore,
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        self.store.state().ended(self.id);
    }
}

impl PendingRow {
    /// The row's future identity.
    pub fn key(&self) -> RowKey {
        self.row.key
    }

    /// Commits it.
    ///
    /// # Panics
    /// When a live row has this message id.
    pub fn commit(self) -> RowKey {
        self.open.store.state().commit(self.row)
    }
}

/// A row lock of another session; dropping it ends that session's transaction.
#[derive(Debug)]
pub struct RowLock {
    session: Session,
    store: MemoryStore,
}

impl Drop for RowLock {
    fn drop(&mut self) {
        self.store.end(self.session);
    }
}
