//! Whether a failed statement may be tried again.

use std::time::Duration;

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind as Kind, Error};

use super::OpenError;
use crate::store::StoreError;

/// What the error alone tells about a failed statement.
pub(crate) enum ErrorClass {
    Known(StoreError),
    /// Either the statement is wrong or its connection is lost. Only a further call on the connection shows which.
    Unclear(Error),
}

/// Texts of temporary errors. Diesel exposes no error codes, so only the English text shows the cause. An error in another
/// language counts as a failed statement, which a relay also retries, but more slowly.
const TRANSIENT: &[&str] = &[
    // PostgreSQL: 40P01, 55P03, 57014 by an administrator, 57P03
    "deadlock detected",
    "lock timeout",
    "due to user request",
    "the database system is",
    // MySQL and MariaDB: 1213, 1205, 1317 by an administrator
    "try restarting transaction",
    "Query execution was interrupted",
    // MariaDB: 1467, which it reports for a deadlock over the table's counter (MDEV-33593)
    "Failed to read auto-increment value",
    // SQLite: BUSY, LOCKED
    "is locked",
];

/// Texts of a server that cancels a slow statement just before the client's deadline, except lock time-outs.
const TIMED_OUT: &[&str] = &[
    // PostgreSQL: 57014
    "due to statement timeout",
    // MariaDB: 1969; MySQL: 3024
    "max_statement_time exceeded",
    "maximum statement execution time exceeded",
];

/// Error texts of a server that refuses the login, and of a file that cannot be opened.
const REFUSED: &[&str] = &[
    // PostgreSQL: 28P01, 28000, 3D000; and its drivers without a password
    "authentication failed for user",
    "no pg_hba.conf entry",
    "password missing",
    "no password supplied",
    "permission denied for database",
    // pgbouncer
    "no such database",
    "no such user",
    // MySQL and MariaDB: 1045, 1044, 1049
    "Access denied for user",
    "Unknown database",
    // SQLite: CANTOPEN
    "nable to open database file",
    "nable to open the database file",
];

/// Error texts for a missing database or role: these words in this order.
const ABSENT: &[(&str, &str)] = &[("database \"", "\" does not exist"), ("role \"", "\" does not exist")];

/// The error of a pool or driver that provides no connection.
pub(super) fn not_opened(error: OpenError) -> StoreError {
    let text = error.to_string();
    let is_absent = |(what, is): &(&str, &str)| text.split_once(what).is_some_and(|(_, rest)| rest.contains(is));
    match REFUSED.iter().any(|refusal| text.contains(refusal)) || ABSENT.iter().any(is_absent) {
        true => StoreError::Refused(error),
        false => StoreError::Unreachable(error),
    }
}

/// `deadline` is the call's time limit.
pub(crate) fn classify(error: Error, deadline: Duration) -> ErrorClass {
    let says = |texts: &[&str], information: &dyn DatabaseErrorInformation| {
        texts.iter().any(|text| information.message().contains(text))
    };
    match error {
        Error::DatabaseError(Kind::ClosedConnection | Kind::UnableToSendCommand, _)
        | Error::BrokenTransactionManager => ErrorClass::Known(StoreError::Unreachable(error.into())),
        // A read-only server is a standby after a failover, until the pool finds the new primary.
        Error::DatabaseError(Kind::SerializationFailure | Kind::ReadOnlyTransaction, _) => {
            ErrorClass::Known(StoreError::Conflict(error.into()))
        }
        Error::DatabaseError(Kind::Unknown, ref information) if says(TIMED_OUT, &**information) => {
            ErrorClass::Known(StoreError::TimedOut { after: deadline })
        }
        Error::DatabaseError(Kind::Unknown, ref information) if says(TRANSIENT, &**information) => {
            ErrorClass::Known(StoreError::Conflict(error.into()))
        }
        Error::DatabaseError(Kind::Unknown, _) => ErrorClass::Unclear(error),
        Error::RollbackErrorOnCommit { commit_error, .. } => classify(*commit_error, deadline),
        error => ErrorClass::Known(StoreError::Statement(error.into())),
    }
}

/// The error of a connection that can no longer be used.
pub(super) fn connection_lost(why: &str) -> Error {
    Error::DatabaseError(Kind::UnableToSendCommand, Box::new(why.to_owned()))
}

/// Accepts the error that somebody else has already written the same rows.
pub(crate) fn ignore_unique_violation(result: Result<usize, StoreError>) -> Result<(), StoreError> {
    match result {
        Err(StoreError::Statement(source)) => match source.downcast::<Error>() {
            Ok(error) if matches!(*error, Error::DatabaseError(Kind::UniqueViolation, _)) => Ok(()),
            Ok(error) => Err(StoreError::Statement(error)),
            Err(source) => Err(StoreError::Statement(source)),
        },
        result => result.map(drop),
    }
}

/// Limits a call's time.
pub(crate) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let timed_out = |_| StoreError::TimedOut { after: deadline };
    tokio::time::timeout(deadline, call).await.map_err(timed_out)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(kind: Kind, message: &str) -> ErrorClass {
        classify(Error::DatabaseError(kind, Box::new(message.to_owned())), Duration::from_secs(5))
    }

    #[test]
    fn a_deadlock_is_a_conflict_on_every_database() {
        for message in [
            "deadlock detected",
            "Deadlock found when trying to get lock; try restarting transaction",
            "Lock wait timeout exceeded; try restarting transaction",
            "Failed to read auto-increment value from storage engine",
            "database is locked",
        ] {
            let class = class(Kind::Unknown, message);
            assert!(matches!(class, ErrorClass::Known(StoreError::Conflict(_))), "{message}");
        }
    }

    /// A lock that somebody holds for long does not make the database slow, so claims must not shrink.
    #[test]
    fn a_lock_time_out_is_a_conflict_and_a_statement_time_out_is_a_time_out() {
        for message in [
            "canceling statement due to lock timeout",
            "canceling statement due to user request",
            "Query execution was interrupted",
        ] {
            let class = class(Kind::Unknown, message);
            assert!(matches!(class, ErrorClass::Known(StoreError::Conflict(_))), "{message}");
        }
        for message in [
            "canceling statement due to statement timeout",
            "Query execution was interrupted (max_statement_time exceeded)",
            "Query execution was interrupted, maximum statement execution time exceeded",
        ] {
            let class = class(Kind::Unknown, message);
            assert!(matches!(class, ErrorClass::Known(StoreError::TimedOut { .. })), "{message}");
        }
    }

    #[test]
    fn a_refused_login_is_no_outage() {
        for text in [
            "FATAL: password authentication failed for user \"shop\"",
            "timed out waiting for connection: FATAL:  database \"shop\" does not exist",
            "FATAL: role \"shop\" does not exist",
            "Access denied for user 'shop'@'localhost' (using password: YES)",
            "Unknown database 'shop'",
            "Unable to open the database file",
        ] {
            assert!(matches!(not_opened(text.into()), StoreError::Refused(_)), "{text}");
        }
        for text in ["Connection refused", "the database system is starting up", "sorry, too many clients already"] {
            assert!(matches!(not_opened(text.into()), StoreError::Unreachable(_)), "{text}");
        }
    }

    #[test]
    fn a_closed_connection_is_no_failed_statement() {
        let class = class(Kind::UnableToSendCommand, "connection closed");
        assert!(matches!(class, ErrorClass::Known(StoreError::Unreachable(_))));
    }

    #[test]
    fn a_refused_statement_is_final_only_where_its_kind_says_so() {
        let refused = class(Kind::NotNullViolation, "null value in column");
        assert!(matches!(refused, ErrorClass::Known(StoreError::Statement(_))));
        assert!(matches!(class(Kind::Unknown, "terminating connection"), ErrorClass::Unclear(_)));
    }

    #[test]
    fn the_reason_of_a_commit_whose_rollback_failed_too_decides() {
        let error = |message: &str| Error::DatabaseError(Kind::SerializationFailure, Box::new(message.to_owned()));
        let both = Error::RollbackErrorOnCommit {
            rollback_error: Box::new(Error::NotFound),
            commit_error: Box::new(error("could not serialize access")),
        };
        assert!(matches!(classify(both, Duration::from_secs(5)), ErrorClass::Known(StoreError::Conflict(_))));
    }
}
