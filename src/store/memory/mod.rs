//! The reference store: rows in memory, with a clock that tests can move and faults that our own tests can inject.

// Only our own tests use a part of it.
#![cfg_attr(not(any(test, feature = "_internals")), allow(dead_code, unreachable_pub, unused_imports))]

mod admin;
mod audit;
mod faults;
mod history;
mod lanes;
mod options;
#[cfg(any(test, feature = "_internals"))]
mod script;
mod state;
mod store;

pub use faults::{Call, Fault};
pub use options::InsertOptions;
#[cfg(any(test, feature = "_internals"))]
pub use script::{PendingRow, RowLock};
pub use store::MemoryClaim;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use self::faults::Faults;
use self::state::{Session, State};
use super::ClaimMode;
use crate::message::Envelope;

/// A store in memory, for tests. It has no connection to enqueue through: [`commit`](Self::commit) writes its messages.
///
/// Clones share their rows.
///
/// The database's clock starts at the machine's time and then runs with tokio's. Under `start_paused` it moves only as the
/// runtime's does; [`advance`](Self::advance) moves it further.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::transport::MemoryTransport;
/// use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (store, broker) = (MemoryStore::new(), MemoryTransport::new());
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let relay = outbox.relay().store(store.clone()).transport(broker.clone()).start().await?;
///
/// store.commit(Envelope::new(MessageId::new(), "orders".into(), SystemTime::now()));
/// broker.wait_for_delivered(1, Duration::from_secs(5)).await?;
/// relay.shutdown(Duration::from_secs(5)).await;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
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
    #[expect(
        clippy::new_without_default,
        reason = "there are two ways to hold rows, and neither is the obvious default"
    )]
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

    /// Writes a committed message, as a process without a relay does: due at once, or at its `deliver_at` if it has one.
    ///
    /// The database's clock sets its `created_at`. It is in no lane, so an ordered topic does not find it.
    ///
    /// # Panics
    /// If there is already a live message with this id.
    pub fn commit(&self, envelope: Envelope) {
        let delay = envelope.deliver_at.map(|at| at.duration_since(self.now()).unwrap_or_default());
        let options = InsertOptions { deliver_after: delay, ..InsertOptions::default() };
        let mut state = self.state();
        let row = state.prepare(envelope, options);
        state.commit(row);
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
