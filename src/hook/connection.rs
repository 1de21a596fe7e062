//! Finds the hook on a connection, and installs it.
//!
//! This file needs Diesel's feature for third-party backends: it reads a connection's instrumentation and creates a connection's
//! events. One other file needs the feature: `outbox::transaction::connection_sync`, which implements `Connection`. Because of the
//! two, Cargo.toml pins Diesel.

use std::any::TypeId;
use std::num::NonZeroU32;
use std::sync::Once;

use diesel::connection::{
    Connection, DynInstrumentation, Instrumentation, InstrumentationEvent, TransactionManager,
    TransactionManagerStatus, ValidTransactionManagerStatus,
};
use diesel::result::{Error, QueryResult};

use super::pending::{Pending, deliver};
use super::{CommitHook, Probe};
use crate::events::log_event;
use crate::receipts::Ticket;
use crate::relay::direct::queue::count_left_to_sweeper;

/// What the outbox needs from a connection, sync or async.
pub(crate) trait Conn {
    fn instrumentation(&mut self) -> &mut dyn Instrumentation;
    fn install(&mut self, hook: CommitHook);
    fn status(&mut self) -> &mut TransactionManagerStatus;
}

/// A Diesel connection.
pub(crate) struct SyncConn<'c, C>(pub(crate) &'c mut C);

impl<C: Connection> Conn for SyncConn<'_, C> {
    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        self.0.instrumentation()
    }
    fn install(&mut self, hook: CommitHook) {
        self.0.set_instrumentation(hook);
    }
    fn status(&mut self) -> &mut TransactionManagerStatus {
        C::TransactionManager::transaction_manager_status_mut(self.0)
    }
}

/// A diesel-async connection.
#[cfg(feature = "async")]
pub(crate) struct AsyncConn<'c, C>(pub(crate) &'c mut C);

#[cfg(feature = "async")]
impl<C: diesel_async::AsyncConnection> Conn for AsyncConn<'_, C> {
    fn instrumentation(&mut self) -> &mut dyn Instrumentation {
        self.0.instrumentation()
    }
    fn install(&mut self, hook: CommitHook) {
        self.0.set_instrumentation(hook);
    }
    fn status(&mut self) -> &mut TransactionManagerStatus {
        <C::TransactionManager as diesel_async::TransactionManager<C>>::transaction_manager_status_mut(self.0)
    }
}

/// A connection's transaction depth, as its transaction manager counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    /// 0 outside a transaction, 1 inside one, plus one for each savepoint.
    pub(crate) depth: u32,
    /// Whether the outermost transaction is one of `begin_test_transaction`, which never commits.
    pub(crate) in_test_transaction: bool,
}

impl Depth {
    /// # Errors
    /// [`Error::BrokenTransactionManager`]: the depth of this connection is unknown.
    pub(crate) fn of(conn: &mut impl Conn) -> QueryResult<Self> {
        match conn.status() {
            TransactionManagerStatus::Valid(ValidTransactionManagerStatus { in_transaction: None, .. }) => {
                Ok(Self { depth: 0, in_test_transaction: false })
            }
            TransactionManagerStatus::Valid(ValidTransactionManagerStatus { in_transaction: Some(open), .. }) => {
                Ok(Self { depth: open.transaction_depth.get(), in_test_transaction: open.test_transaction })
            }
            TransactionManagerStatus::InError => Err(Error::BrokenTransactionManager),
        }
    }

    /// The depth at which a written row counts as committed: 0, or 1 in an application's test.
    pub(crate) fn committed_depth(self) -> u32 {
        u32::from(self.in_test_transaction)
    }

    /// Whether the end of this transaction commits its rows.
    pub(crate) fn is_outermost(self) -> bool {
        self.depth == self.committed_depth() + 1
    }
}

/// How many statements the hook has seen begin. Installs the hook if the connection has no instrumentation. `None` if
/// it has the application's own.
pub(crate) fn statements(conn: &mut impl Conn) -> Option<u64> {
    if is_none(conn.instrumentation()) {
        conn.install(CommitHook::new());
    }
    conn.instrumentation().downcast_ref::<CommitHook>().map(|hook| hook.buffer.statements())
}

/// Keeps rows until their transaction ends, with the count of [`statements`] from before they were written. Outside a
/// transaction it hands them over at once, because no COMMIT will follow.
pub(crate) fn hold_until_commit(conn: &mut impl Conn, rows: Vec<Pending>, at: Depth, before: Option<u64>) {
    if rows.is_empty() {
        return;
    }
    if at.depth <= at.committed_depth() {
        return deliver(rows);
    }
    match (conn.instrumentation().downcast_mut::<CommitHook>(), before) {
        (Some(hook), Some(before)) => hook.buffer.push(rows, at.depth, at.in_test_transaction, before),
        _ => warn_without_hook(rows),
    }
}

/// Reports a BEGIN, or the SAVEPOINT at `depth`, that no transaction manager sends.
pub(crate) fn announce_begin(conn: &mut impl Conn, depth: NonZeroU32) {
    conn.instrumentation().on_connection_event(InstrumentationEvent::begin_transaction(depth));
}

/// Announces the COMMIT of the outermost transaction as a transaction manager does. `statements` are sent together with
/// it and end before it.
pub(crate) fn announce_commit(conn: &mut impl Conn, statements: usize) {
    let instrumentation = conn.instrumentation();
    if let Some(hook) = instrumentation.downcast_mut::<CommitHook>() {
        hook.buffer.expect_statements_before_commit(statements);
    }
    instrumentation.on_connection_event(InstrumentationEvent::commit_transaction(NonZeroU32::MIN));
}

/// Announces the ROLLBACK of the outermost transaction.
#[cfg(all(feature = "async", feature = "postgres"))]
pub(crate) fn announce_rollback(conn: &mut impl Conn) {
    conn.instrumentation().on_connection_event(InstrumentationEvent::rollback_transaction(NonZeroU32::MIN));
}

/// Announces one of our statements that is expected to fail. The hook hides it; an application's instrumentation
/// without the hook sees it.
pub(crate) fn expect_probe(conn: &mut impl Conn, probe: &'static str) {
    statements(conn);
    if let Some(hook) = conn.instrumentation().downcast_mut::<CommitHook>() {
        hook.probe = Probe::Expected(probe);
    }
}

/// Whether the hook saw a transaction begin, but neither its COMMIT nor its ROLLBACK.
pub(crate) fn has_begun(conn: &mut impl Conn) -> bool {
    conn.instrumentation().downcast_ref::<CommitHook>().is_some_and(|hook| hook.buffer.has_begun())
}

/// Whether the hook saw a deadlock in the open transaction.
pub(crate) fn is_deadlocked(conn: &mut impl Conn) -> bool {
    conn.instrumentation().downcast_ref::<CommitHook>().is_some_and(|hook| hook.buffer.is_deadlocked())
}

/// Diesel's placeholder for "none" is private, but its type can be recognised.
fn is_none(instrumentation: &dyn Instrumentation) -> bool {
    let none: TypeId = DynInstrumentation::none().as_any().type_id();
    instrumentation.as_any().type_id() == none
}

fn warn_without_hook(rows: Vec<Pending>) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        log_event!(HOOK_REPLACED);
    });
    rows.iter().filter_map(|row| row.record.as_ref()).for_each(|record| record.to.count_unseen());
    count_left_to_sweeper(rows.iter().filter(|row| row.link.is_some()).count(), "no_hook");
    rows.into_iter().filter_map(|row| row.ticket).for_each(Ticket::leave);
}
