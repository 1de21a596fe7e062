use std::collections::HashMap;

use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{Error, QueryResult};
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};
use diesel::sqlite::Sqlite;

use super::{Binds, Dialect, Inserted, Insertion, MESSAGES, message_contains};
use crate::inbox::prune_sql::{self, PruneSql};

/// A returned row: id and message id.
pub(in crate::enqueue) type Returned = (i64, Vec<u8>);

/// Milliseconds since 1970; `unixepoch('subsec')` is NULL before SQLite 3.42.
const NOW_MS: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";

impl Dialect for Sqlite {
    const INBOX_PRUNE: &'static PruneSql = &prune_sql::SQLITE;
    const ROW_COUNTS: &'static [usize] = &[crate::limits::ENQUEUE_ROWS_MAX, 64, 16, 4, 1];
    const INSERT_MAY_BE_PARTIAL: bool = true;

    // `OR ROLLBACK`, `RAISE(ROLLBACK)` and a full disk end a transaction as COMMIT and ROLLBACK do, and no SQL
    // expression says whether one is open. SQL can only show whether a savepoint exists, and BEGIN fails inside a
    // transaction.
    const CLEAR_FLAG: Option<&'static str> = Some("RELEASE SAVEPOINT outbox_transaction");
    const PROBE: Option<&'static str> = Some("BEGIN; ROLLBACK");

    fn transaction_flag_sql(_depth: u32) -> Option<String> {
        Some("SAVEPOINT outbox_transaction".to_owned())
    }

    fn is_transaction_lost_error(error: &Error) -> bool {
        message_contains(error, "no such savepoint: outbox_transaction")
    }

    fn is_in_transaction_error(error: &Error) -> bool {
        message_contains(error, "within a transaction")
    }

    fn is_not_in_transaction_error(error: &Error) -> bool {
        message_contains(error, "no transaction is active")
    }
}

/// The rows of one statement.
pub(in crate::enqueue) struct Insert<'a> {
    table: &'a str,
    rows: Vec<Binds<'a>>,
    has_lanes: bool,
    has_delays: bool,
}

impl<'a> Insert<'a> {
    pub(in crate::enqueue) fn new(insertion: &Insertion<'a>) -> Self {
        let rows = insertion.rows.iter().map(|row| Binds::new(row, insertion.leased)).collect();
        let (has_lanes, has_delays) = (insertion.has_lanes(), insertion.has_delays());
        Self { table: insertion.table, rows, has_lanes, has_delays }
    }

    fn walk_row<'b>(&self, row: &'b Binds<'a>, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("(");
        out.push_bind_param::<Binary, _>(row.message_id_bytes)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(row.topic)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Text>, _>(&row.key)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(row.kind)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(row.headers)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Binary>, _>(&row.payload)?;
        out.push_sql(", ");
        if self.has_delays {
            walk_deliver_at(row, out)?;
            out.push_sql(", ");
        }
        if self.has_lanes {
            out.push_bind_param::<Integer, _>(&row.lane)?;
            out.push_sql(", iif(");
            out.push_bind_param::<Integer, _>(&row.lane)?;
            out.push_sql(" >= 0, 0, ");
        } else {
            out.push_sql("(");
        }
        if self.has_delays {
            out.push_sql("max(");
            out.push_sql(NOW_MS);
            out.push_sql(", coalesce(");
            walk_deliver_at(row, out)?;
            out.push_sql(", ");
        }
        out.push_sql(NOW_MS);
        out.push_sql(" + ");
        out.push_bind_param::<BigInt, _>(&row.lease_ms)?;
        out.push_sql(if self.has_delays { "))))" } else { "))" });
        Ok(())
    }
}

/// When a row is due; NULL if it is not delayed.
fn walk_deliver_at<'b>(row: &'b Binds<'_>, out: &mut AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
    out.push_sql("coalesce(");
    out.push_bind_param::<Nullable<BigInt>, _>(&row.deliver_at_ms)?;
    out.push_sql(", ");
    out.push_sql(NOW_MS);
    out.push_sql(" + ");
    out.push_bind_param::<Nullable<BigInt>, _>(&row.delay_ms)?;
    out.push_sql(")");
    Ok(())
}

impl QueryFragment<Sqlite> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(self.table);
        out.push_sql(" (message_id, topic, key, kind, headers, payload, ");
        out.push_sql(if self.has_delays { "deliver_at, " } else { "" });
        out.push_sql(if self.has_lanes { "lane, due_at) VALUES " } else { "due_at) VALUES " });
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                out.push_sql(", ");
            }
            self.walk_row(row, &mut out)?;
        }
        out.push_sql(" RETURNING id, message_id");
        Ok(())
    }
}

impl QueryId for Insert<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for Insert<'_> {}

impl Query for Insert<'_> {
    type SqlType = (BigInt, Binary);
}

/// `error` as our own where it says that the table is missing. It has no code of its own, and its text is English everywhere.
pub(in crate::enqueue) fn explained(insertion: &Insertion<'_>, error: Error) -> Error {
    match &error {
        Error::DatabaseError(_, information)
            if information.message().strip_prefix("no such table: ") == Some(insertion.table) =>
        {
            insertion.table_missing::<Sqlite>(MESSAGES)
        }
        _ => error,
    }
}

/// The result for each message of `insertion`. SQLite guarantees no order of the returned rows.
pub(in crate::enqueue) fn inserted(insertion: &Insertion<'_>, returned: Vec<Returned>) -> QueryResult<Vec<Inserted>> {
    let stored = returned.len();
    let returned: HashMap<Vec<u8>, i64> = returned.into_iter().map(|(id, message_id)| (message_id, id)).collect();
    if stored < insertion.rows.len() {
        return Err(insertion.removed(|row| !returned.contains_key(row.message_id.as_uuid().as_bytes().as_slice())));
    }
    let id = |message_id: &[u8]| returned.get(message_id).copied();
    let inserted = insertion.rows.iter().map(|row| row.message_id.as_uuid().as_bytes());
    Ok(inserted.map(|message_id| Inserted { id: id(message_id), created_at: None }).collect())
}
