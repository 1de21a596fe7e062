//! A COMMIT that fails where the database would answer "ok" and keep nothing.
//!
//! PostgreSQL does so after a failed statement, MariaDB and MySQL after a deadlock. Whoever ignored that statement's error would take the
//! work for done.

use std::any::type_name;

use diesel::connection::{
    AnsiTransactionManager, Connection, TransactionDepthChange, TransactionManager, TransactionManagerStatus,
};
use diesel::result::{Error, QueryResult};

use super::begin::{install_hook_if_needed, is_diesel_manager};
use crate::enqueue::Dialect;
use crate::hook::{Conn, Depth, SyncConn, announce_commit, is_deadlocked};

/// Why a transaction did not commit. It is over, or its connection is broken.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// A statement had failed and its error was ignored: only a rollback was possible.
    Aborted,
    /// The transaction was over before.
    Lost,
    /// The database's error.
    Database(Error),
}

impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

/// How a transaction is committed.
pub(super) enum CommitPlan {
    /// By its manager.
    Plain,
    /// The check by itself, then by its manager: what a manager of another crate sends is unknown.
    CheckThenPlain(&'static str),
    /// The check and COMMIT in one text, which is one round trip.
    Together(&'static str),
}

impl CommitPlan {
    pub(super) fn of<M, B: Dialect>(at: Depth, diesel_manager: &str) -> Self {
        // RELEASE of a savepoint fails by itself.
        let is_outermost = at.depth == 1 && !at.in_test_transaction;
        match B::CHECKED_COMMIT.filter(|_| is_outermost) {
            None => Self::Plain,
            Some(text) if is_diesel_manager(type_name::<M>(), diesel_manager) => Self::Together(text),
            Some(text) => Self::CheckThenPlain(check_of(text)),
        }
    }
}

/// The check of a checked COMMIT.
pub(super) fn check_of(text: &'static str) -> &'static str {
    text.strip_suffix("; COMMIT").unwrap_or(text)
}

/// Whether a deadlock has ended the transaction.
pub(crate) fn has_lost_by_deadlock<B: Dialect>(conn: &mut impl Conn) -> bool {
    B::DEADLOCK_ENDS_TRANSACTION && is_deadlocked(conn)
}

/// Counts the transaction as over.
pub(super) fn record_end(conn: &mut impl Conn) -> QueryResult<()> {
    let TransactionManagerStatus::Valid(open) = conn.status() else { return Err(Error::BrokenTransactionManager) };
    match open.change_transaction_depth(TransactionDepthChange::DecreaseDepth) {
        // libpq has seen it.
        Err(Error::NotInTransaction) => Ok(()),
        ended => ended,
    }
}

/// What the error of a checked COMMIT means, after the rollback. `is_aborted` tells that the check failed again before it.
pub(super) fn why<B: Dialect>(error: Error, is_aborted: bool, rolled_back: QueryResult<()>) -> CommitError {
    match rolled_back {
        Ok(()) if is_aborted => CommitError::Aborted,
        _ if B::is_transaction_lost_error(&error) => CommitError::Lost,
        _ => CommitError::Database(error),
    }
}

/// Begins a transaction, or a savepoint, for [`commit_checked`].
pub(crate) fn begin_checked<C>(conn: &mut C) -> QueryResult<()>
where
    C: Connection,
    C::Backend: Dialect,
{
    install_hook_if_needed::<C::Backend>(&mut SyncConn(conn));
    C::TransactionManager::begin_transaction(conn)
}

/// Commits, if the database keeps what the transaction did.
pub(crate) fn commit_checked<C>(conn: &mut C) -> Result<(), CommitError>
where
    C: Connection,
    C::Backend: Dialect,
{
    let at = Depth::of(&mut SyncConn(conn))?;
    if has_lost_by_deadlock::<C::Backend>(&mut SyncConn(conn)) {
        // Its error says nothing more, and leaves the connection broken.
        drop(C::TransactionManager::rollback_transaction(conn));
        return Err(CommitError::Lost);
    }
    let text = match CommitPlan::of::<C::TransactionManager, C::Backend>(at, type_name::<AnsiTransactionManager>()) {
        CommitPlan::Plain => return Ok(C::TransactionManager::commit_transaction(conn)?),
        CommitPlan::CheckThenPlain(check) => match conn.batch_execute(check) {
            Ok(()) => return Ok(C::TransactionManager::commit_transaction(conn)?),
            Err(error) => return Err(roll_back(conn, error, check)),
        },
        CommitPlan::Together(text) => text,
    };
    announce_commit(&mut SyncConn(conn), 0);
    match conn.batch_execute(text) {
        Ok(()) => Ok(record_end(&mut SyncConn(conn))?),
        Err(error) => Err(roll_back(conn, error, check_of(text))),
    }
}

fn roll_back<C>(conn: &mut C, error: Error, check: &str) -> CommitError
where
    C: Connection,
    C::Backend: Dialect,
{
    // In any language, this tells a failed transaction from a failed COMMIT.
    let is_aborted = C::Backend::ERRORS_END_TRANSACTION && conn.batch_execute(check).is_err();
    why::<C::Backend>(error, is_aborted, C::TransactionManager::rollback_transaction(conn))
}
