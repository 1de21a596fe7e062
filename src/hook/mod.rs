//! The commit hook: Diesel's [`Instrumentation`] of one connection. It hands rows to the relay when their transaction
//! ends.
//!
//! Events only decide *when* the relay reads the rows. An event alone does not prove a commit. PostgreSQL answers "ok"
//! to the COMMIT of an aborted transaction. InnoDB rolls a whole transaction back while its session continues.
//! diesel-async reports a failing `INSERT .. RETURNING` as a success. So the hook hands rows over whenever the result
//! is in doubt, and the relay reads them before it sends them. Savepoints are tracked only to avoid reads that would
//! find nothing.
//!
//! On PostgreSQL, one order of statements does prove a commit: our INSERT succeeded, COMMIT followed at once, and
//! neither failed. Such rows, if they are small, go to the relay inline and are not read.

mod connection;
mod pending;
mod savepoints;
#[cfg(test)]
mod tests;

#[cfg(feature = "async")]
pub(crate) use connection::AsyncConn;
#[cfg(all(feature = "async", feature = "postgres"))]
pub(crate) use connection::announce_rollback;
pub(crate) use connection::{
    Conn, Depth, SyncConn, announce_begin, announce_commit, expect_probe, has_begun, hold_until_commit, is_deadlocked,
    statements,
};
pub(crate) use pending::{Pending, RecordedMessage, TestRecorder, deliver};

use std::fmt;

use diesel::connection::{Instrumentation, InstrumentationEvent};
use diesel::result::{DatabaseErrorKind, Error};

use self::savepoints::{Buffer, StatementResult};
use crate::enqueue::{MYSQL_CHECKED_COMMIT, POSTGRES_CHECKED_COMMIT};

/// The commit hook of one connection.
///
/// A connection without instrumentation gets the hook at its first enqueue. If the application has its own
/// instrumentation, install both together, once per connection:
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
/// The hook belongs to its connection. If it is removed and put back, or swapped with another one, it has missed what
/// happened meanwhile.
#[derive(Default)]
pub struct CommitHook {
    buffer: Buffer,
    chained: Option<Box<dyn Instrumentation>>,
    probe: Probe,
}

/// One of our statements that is expected to fail: it is neither counted nor logged.
#[derive(Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    None,
    /// It is the next statement, unless its future was dropped.
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

    /// Passes every event on to `mine`, after the hook has seen it. A second call replaces the first: events cannot be
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
            InstrumentationEvent::StartQuery { query, .. } => self.buffer.start(|| is_commit(&query.to_string())),
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

/// Whether this text is a COMMIT alone, or one that fails where it could keep nothing.
fn is_commit(text: &str) -> bool {
    ["COMMIT", POSTGRES_CHECKED_COMMIT, MYSQL_CHECKED_COMMIT].contains(&text)
}

/// Whether a COMMIT that ended with `error` may still have happened, for instance if the connection broke after it. No
/// error proves success, but some errors prove failure.
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

/// diesel-async has no error kind for MySQL's deadlock. The text is the server's, and English unless configured
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
