//! The commit hook: Diesel's [`Instrumentation`] of one connection, which hands rows to the relay when their transaction
//! ends.
//!
//! Events only decide *when to look*. None of them proves a commit: PostgreSQL answers "ok" to the COMMIT of an aborted
//! transaction, InnoDB rolls a whole transaction back while its session goes on, and diesel-async reports a failing
//! `INSERT .. RETURNING` as a success. So the hook hands over in every doubtful case, and the relay reads the rows before
//! it sends them. Savepoints are followed only to spare reads that would find nothing.
//!
//! One order of statements is a proof, on PostgreSQL: an INSERT of ours that succeeded, right behind it COMMIT, and no error. Such
//! rows, where they are small, go to the relay themselves and are not read.

mod buffer;
mod connection;
mod pending;
#[cfg(test)]
mod tests;

#[cfg(feature = "async")]
pub(crate) use connection::AsyncConn;
pub(crate) use connection::{
    Conn, Depth, SyncConn, expect_probe, has_begun, hold_until_commit, is_deadlocked, statements,
};
#[cfg(all(feature = "async", feature = "postgres"))]
pub(crate) use connection::{announce_commit, announce_rollback};
pub(crate) use pending::{Pending, RecordedMessage, TestRecorder, deliver};

use std::fmt;

use diesel::connection::{Instrumentation, InstrumentationEvent};
use diesel::result::{DatabaseErrorKind, Error};

use self::buffer::{Buffer, StatementResult};

/// The commit hook of one connection.
///
/// A connection without instrumentation gets it at its first enqueue. Where the application has an instrumentation of its
/// own, install the two together, once per connection:
///
/// ```
/// use diesel::connection::InstrumentationEvent;
/// use diesel::prelude::*;
/// use diesel_outbox::{Outbox, Topic};
///
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// let mut conn = SqliteConnection::establish(":memory:")?;
/// conn.set_instrumentation(outbox.commit_hook().chain(|_event: InstrumentationEvent<'_>| { /* count, log, trace */ }));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// It belongs to its connection: taken off and put back, or swapped with another one's, it has not seen what happened meanwhile.
#[derive(Default)]
pub struct CommitHook {
    buffer: Buffer,
    chained: Option<Box<dyn Instrumentation>>,
    probe: Probe,
}

/// A statement of our own that is expected to fail: nobody is to count it or to log its error.
#[derive(Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    None,
    /// It comes next, unless its future was dropped.
    Expected(&'static str),
    Begun,
}

impl Probe {
    fn consumes(&mut self, event: &InstrumentationEvent<'_>) -> bool {
        match (std::mem::take(self), event) {
            (Self::Expected(probe), InstrumentationEvent::StartQuery { query, .. }) if query.to_string() == probe => {
                *self = Self::Begun;
                true
            }
            (Self::Begun, InstrumentationEvent::FinishQuery { .. }) => true,
            _ => false,
        }
    }
}

impl CommitHook {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Passes every event on to `mine`, after the hook has seen it. A second call replaces the first's: events cannot be
    /// copied for two.
    #[must_use]
    pub fn chain(mut self, mine: impl Instrumentation) -> Self {
        self.chained = Some(Box::new(mine));
        self
    }
}

impl Instrumentation for CommitHook {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if self.probe.consumes(&event) {
            return;
        }
        match &event {
            InstrumentationEvent::BeginTransaction { depth, .. } => self.buffer.begin(depth.get()),
            InstrumentationEvent::CommitTransaction { depth, .. } => self.buffer.commit(depth.get()),
            InstrumentationEvent::RollbackTransaction { depth, .. } => self.buffer.roll_back(depth.get()),
            InstrumentationEvent::StartQuery { query, .. } => self.buffer.start(|| query.to_string() == "COMMIT"),
            InstrumentationEvent::FinishQuery { error, .. } => {
                if error.is_some_and(is_deadlock) {
                    self.buffer.deadlock();
                }
                self.buffer.finish(match error {
                    None => StatementResult::Success,
                    Some(error) if may_have_committed(error) => StatementResult::Unknown,
                    Some(_) => StatementResult::Failed,
                });
            }
            _ => {}
        }
        if let Some(chained) = &mut self.chained {
            chained.on_connection_event(event);
        }
    }
}

/// Whether a COMMIT that ended with `error` may have happened all the same, as when the connection broke behind it. No
/// error is no proof of success, but some errors are proofs of failure.
pub(crate) fn may_have_committed(error: &Error) -> bool {
    use DatabaseErrorKind as Kind;
    match error {
        Error::RollbackErrorOnCommit { commit_error, .. } => may_have_committed(commit_error),
        Error::DatabaseError(kind, _) => !matches!(
            kind,
            Kind::UniqueViolation
                | Kind::ForeignKeyViolation
                | Kind::SerializationFailure
                | Kind::ReadOnlyTransaction
                | Kind::RestrictViolation
                | Kind::NotNullViolation
                | Kind::CheckViolation
                | Kind::ExclusionViolation
        ),
        _ => true,
    }
}

/// diesel-async gives MySQL's deadlock no kind of its own; the text is the server's, and English unless it was set
/// otherwise.
fn is_deadlock(error: &Error) -> bool {
    match error {
        Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => true,
        Error::DatabaseError(_, information) => information.message().starts_with("Deadlock found"),
        _ => false,
    }
}

impl fmt::Debug for CommitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitHook").field("chained", &self.chained.is_some()).finish_non_exhaustive()
    }
}
