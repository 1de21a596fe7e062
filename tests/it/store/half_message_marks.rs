//! How the suite's transactions mark half messages.

use diesel::QueryResult;
use diesel::connection::SimpleConnection;
use diesel::result::{DatabaseErrorKind, Error};
use diesel_outbox::internals::store_suite::Marking;

/// The statement before the mark.
pub(super) fn statement_before_mark(marking: Marking) -> &'static str {
    if marking == Marking::InRolledBackSavepoint { "SAVEPOINT lost" } else { "SELECT 1" }
}

/// Rolls back a mark that was written, if it is to be lost; returns whether it was accepted.
pub(super) fn was_marked(conn: &mut impl SimpleConnection, marking: Marking, written: QueryResult<usize>) -> bool {
    match written {
        Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => return false,
        written => assert_eq!(written.expect("a mark"), 1),
    }
    if marking == Marking::InRolledBackSavepoint {
        conn.batch_execute("ROLLBACK TO SAVEPOINT lost").expect("the savepoint");
    }
    true
}
