//! How the suite's transactions mark half messages.

use diesel::QueryResult;
use diesel::connection::SimpleConnection;
use diesel::result::{DatabaseErrorKind, Error};
use diesel_outbox::testing::store::Marking;

/// What goes before the mark.
pub(super) fn statement_before_mark(marking: Marking) -> &'static str {
    if marking == Marking::InRolledBackSavepoint { "SAVEPOINT lost" } else { "SELECT 1" }
}

/// Loses a mark that was written, where it is to be lost; whether it was taken.
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
