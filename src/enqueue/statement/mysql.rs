use diesel::expression::SqlLiteral;
use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error, QueryResult};
use diesel::sql_types::{BigInt, Binary, Integer, Nullable, Text};

use super::{Binds, Dialect, Inserted, Insertion, MESSAGES, MYSQL_CHECKED_COMMIT, message_contains, without_schema};
use crate::inbox::prune_sql::{self, PruneSql};
use crate::limits::KEY_LOCK_BUCKETS;

/// The table of key locks, without the prefix.
const KEY_LOCKS: &str = "key_locks";

impl Dialect for Mysql {
    const INBOX_PRUNE: &'static PruneSql = &prune_sql::MYSQL;
    const ROW_COUNTS: &'static [usize] = &[crate::limits::ENQUEUE_ROWS_MAX, 64, 16, 4, 1];
    const DEADLOCK_ENDS_TRANSACTION: bool = true;
    const CAN_CHECK_OWN_ROWS: bool = false;
    const CHECKED_COMMIT: Option<&'static str> = Some(MYSQL_CHECKED_COMMIT);

    /// The overflow error contains the guard's text, whatever the server's language.
    fn is_transaction_lost_error(error: &Error) -> bool {
        message_contains(error, "@@in_transaction")
    }
}

/// Only MariaDB runs `/*M! .. */`. Outside a transaction the sum overflows BIGINT, which is an error in every SQL mode.
///
/// Rejected: `INSERT .. SELECT .. WHERE @@in_transaction`, because an INSERT from a SELECT takes InnoDB's table-wide
/// lock on AUTO_INCREMENT where `innodb_autoinc_lock_mode` is 1, MariaDB's default.
pub(crate) const GUARD_BEGIN: &str = "/*M! IF(~0 + (1 - @@in_transaction), */";
pub(crate) const GUARD_END: &str = "/*M! , NULL) */";

/// Locks keys until the transaction ends: one row for each bucket, in ascending order.
///
/// Rejected: `GET_LOCK`, which outlasts the transaction. It would have to be released after a COMMIT that is not ours.
pub(in crate::enqueue) struct LockKeys {
    table: String,
    buckets: Vec<i32>,
}

impl LockKeys {
    pub(in crate::enqueue) fn new(insertion: &Insertion<'_>) -> Option<Self> {
        let buckets = insertion.key_locks().into_iter().map(|lock| lock.rem_euclid(KEY_LOCK_BUCKETS));
        let mut buckets: Vec<i32> = buckets.filter_map(|bucket| i32::try_from(bucket).ok()).collect();
        buckets.sort_unstable();
        buckets.dedup();
        // Padded to a few sizes: every connection prepares each text, and the server's max_prepared_stmt_count covers
        // all connections. A repeated bucket is locked once.
        if let Some(&last) = buckets.last() {
            buckets.resize(buckets.len().next_power_of_two(), last);
        }
        (!buckets.is_empty()).then(|| Self { table: insertion.sibling(KEY_LOCKS), buckets })
    }
}

impl QueryFragment<Mysql> for LockKeys {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(&self.table);
        out.push_sql(" (bucket) VALUES ");
        for (index, bucket) in self.buckets.iter().enumerate() {
            out.push_sql(if index > 0 { ", (" } else { "(" });
            out.push_bind_param::<Integer, _>(bucket)?;
            out.push_sql(")");
        }
        out.push_sql(" ON DUPLICATE KEY UPDATE bucket = VALUES(bucket)");
        Ok(())
    }
}

impl QueryId for LockKeys {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for LockKeys {}

/// The rows of one statement.
pub(in crate::enqueue) struct Insert<'a> {
    table: &'a str,
    rows: Vec<Binds<'a>>,
    /// Whether MariaDB must refuse outside a transaction: a deadlock or DDL may have ended it unnoticed.
    checks_transaction: bool,
    has_lanes: bool,
    has_delays: bool,
}

impl<'a> Insert<'a> {
    pub(in crate::enqueue) fn new(insertion: &Insertion<'a>) -> Self {
        let rows = insertion.rows.iter().map(|row| Binds::new(row, insertion.leased)).collect();
        let (has_lanes, has_delays) = (insertion.has_lanes(), insertion.has_delays());
        Self { table: insertion.table, rows, checks_transaction: insertion.in_transaction, has_lanes, has_delays }
    }

    fn walk_row<'b>(
        &self,
        row: &'b Binds<'a>,
        checks_transaction: bool,
        out: &mut AstPass<'_, 'b, Mysql>,
    ) -> QueryResult<()> {
        out.push_sql("(");
        out.push_bind_param::<Binary, _>(row.message_id_bytes)?;
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(row.topic)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Text>, _>(&row.key)?;
        out.push_sql(", ");
        out.push_sql(if checks_transaction { GUARD_BEGIN } else { "" });
        out.push_bind_param::<Text, _>(row.kind)?;
        out.push_sql(if checks_transaction { GUARD_END } else { "" });
        out.push_sql(", ");
        out.push_bind_param::<Text, _>(row.headers)?;
        out.push_sql(", ");
        out.push_bind_param::<Nullable<Binary>, _>(&row.payload)?;
        if self.has_delays {
            out.push_sql(", ");
            walk_deliver_at(row, out)?;
        }
        if self.has_lanes {
            out.push_sql(", ");
            out.push_bind_param::<Integer, _>(&row.lane)?;
            out.push_sql(", IF(");
            out.push_bind_param::<Integer, _>(&row.lane)?;
            out.push_sql(" >= 0, TIMESTAMP'1970-01-01 00:00:00', ");
        } else {
            out.push_sql(", (");
        }
        if self.has_delays {
            out.push_sql("GREATEST(UTC_TIMESTAMP(6), COALESCE(");
            walk_deliver_at(row, out)?;
            out.push_sql(", ");
        }
        // UTC_TIMESTAMP, not NOW: the latter follows the session's time zone.
        out.push_sql("UTC_TIMESTAMP(6) + INTERVAL ");
        out.push_bind_param::<BigInt, _>(&row.lease_ms)?;
        out.push_sql(" * 1000 MICROSECOND");
        out.push_sql(if self.has_delays { "))))" } else { "))" });
        Ok(())
    }
}

/// When a row is due; NULL if it is not delayed.
fn walk_deliver_at<'b>(row: &'b Binds<'_>, out: &mut AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
    out.push_sql("COALESCE(TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ");
    out.push_bind_param::<Nullable<BigInt>, _>(&row.deliver_at_ms)?;
    out.push_sql(" * 1000 MICROSECOND, UTC_TIMESTAMP(6) + INTERVAL ");
    out.push_bind_param::<Nullable<BigInt>, _>(&row.delay_ms)?;
    out.push_sql(" * 1000 MICROSECOND)");
    Ok(())
}

impl QueryFragment<Mysql> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(self.table);
        out.push_sql(" (message_id, topic, `key`, kind, headers, payload, ");
        out.push_sql(if self.has_delays { "deliver_at, " } else { "" });
        out.push_sql(if self.has_lanes { "lane, due_at) VALUES " } else { "due_at) VALUES " });
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                out.push_sql(", ");
            }
            // Only on the first row: the whole statement runs inside a transaction, or none of it.
            self.walk_row(row, self.checks_transaction && index == 0, &mut out)?;
        }
        Ok(())
    }
}

impl QueryId for Insert<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for Insert<'_> {}

/// A query for the tables that exist, if `error` may say that one is missing. The drivers hide the error's number. Its text is in the
/// server's language, but has the table's name.
pub(in crate::enqueue) fn which_are_there(insertion: &Insertion<'_>, error: &Error) -> Option<SqlLiteral<Text>> {
    let Error::DatabaseError(DatabaseErrorKind::Unknown, information) = error else { return None };
    let tables = [MESSAGES, KEY_LOCKS].map(|name| insertion.sibling(name));
    let [messages, key_locks] = tables.each_ref().map(|table| without_schema(table));
    let schema = insertion.table.split_once('.').map(|(schema, _)| schema);
    let mut names = [messages, key_locks].into_iter().chain(schema);
    if !names.any(|name| information.message().contains(name)) {
        return None;
    }
    let schema = schema.map_or("DATABASE()".to_owned(), |schema| format!("'{schema}'"));
    let sql = format!(
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = {schema} AND table_name IN ('{messages}', '{key_locks}')"
    );
    Some(diesel::dsl::sql(&sql))
}

/// `error` as our own if a table is not among those that are `there`.
pub(in crate::enqueue) fn explained(insertion: &Insertion<'_>, error: Error, there: QueryResult<Vec<String>>) -> Error {
    let Ok(there) = there else { return error };
    let is_missing = |name: &str| {
        let table = insertion.sibling(name);
        !there.iter().any(|found| without_schema(&table) == found)
    };
    if is_missing(MESSAGES) {
        insertion.table_missing::<Mysql>(MESSAGES)
    } else if is_missing(KEY_LOCKS) && !insertion.key_locks().is_empty() {
        insertion.table_missing::<Mysql>(KEY_LOCKS)
    } else {
        error
    }
}

/// The result for the messages of `insertion`, by the number of written rows.
pub(in crate::enqueue) fn inserted(insertion: &Insertion<'_>, written: usize) -> QueryResult<Vec<Inserted>> {
    if written < insertion.rows.len() {
        return Err(insertion.removed(|_| true));
    }
    Ok(vec![Inserted::default(); insertion.rows.len()])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use diesel::debug_query;

    use super::*;
    use crate::enqueue::encode::Encoded;
    use crate::enqueue::error::EnqueueError;
    use crate::limits::ENQUEUE_ROWS_MAX;
    use crate::message::Message;
    use crate::outbox::Outbox;
    use crate::topic::Topic;

    /// One that locks the keys of its own rows.
    fn insertion(rows: &[Encoded]) -> Insertion<'_> {
        let (table, leased, in_transaction, flagged) = ("outbox_messages", false, true, None);
        Insertion { table, rows, locked: rows, leased, in_transaction, flagged }
    }

    #[test]
    fn the_locks_of_many_keys_are_bounded_in_number() {
        let topic = Topic::new("orders").ordered_by_key().serialize_by_key();
        let outbox = Outbox::builder().topic(topic).build().expect("build");
        let encoded = |key: i64| outbox.encode_checked(&Message::to("orders").key(key.to_string())).expect("encode");
        let rows: Vec<Encoded> = (0..2 * KEY_LOCK_BUCKETS).map(encoded).collect();
        let insertion = insertion(&rows);
        let locks = LockKeys::new(&insertion).expect("it locks");
        let buckets = 0..i32::try_from(KEY_LOCK_BUCKETS).expect("few");
        assert!(locks.buckets.iter().all(|bucket| buckets.contains(bucket)));
        assert!(locks.buckets.is_sorted(), "buckets are ascending");
        let different: HashSet<i32> = locks.buckets.iter().copied().collect();
        assert!(different.len() > rows.len() / 4, "and spread out: {}", different.len());
    }

    /// Each connection prepares each text, and the server limits their number over all connections.
    #[test]
    fn the_locks_of_any_number_of_keys_are_one_of_a_few_texts() {
        let topic = Topic::new("orders").ordered_by_key().serialize_by_key();
        let outbox = Outbox::builder().topic(topic).build().expect("build");
        let encoded = |key: usize| outbox.encode_checked(&Message::to("orders").key(key.to_string())).expect("encode");
        let rows: Vec<Encoded> = (0..ENQUEUE_ROWS_MAX).map(encoded).collect();
        let text = |count: usize| {
            let insertion = insertion(&rows[..count]);
            let locks = LockKeys::new(&insertion).expect("it locks");
            let wanted: HashSet<i64> =
                insertion.key_locks().into_iter().map(|lock| lock.rem_euclid(KEY_LOCK_BUCKETS)).collect();
            assert_eq!(locks.buckets.iter().map(|bucket| i64::from(*bucket)).collect::<HashSet<_>>(), wanted);
            debug_query::<Mysql, _>(&locks).to_string().split(" -- binds").next().expect("a text").to_owned()
        };
        let texts: HashSet<String> = (1..=ENQUEUE_ROWS_MAX).map(text).collect();
        assert!(texts.len() <= 9, "{} texts", texts.len());
    }

    /// No trigger of MariaDB or MySQL can drop a row without an error, so no server test covers this.
    #[test]
    fn fewer_rows_than_messages_are_an_error() {
        let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("build");
        let rows = [1, 2].map(|_| outbox.encode_checked(&Message::to("orders")).expect("encode"));
        let insertion = insertion(&rows);
        assert_eq!(inserted(&insertion, 2).expect("both").len(), 2);
        let error = inserted(&insertion, 1).expect_err("one is missing");
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::RowRemoved { topic }) if topic == "orders"));
    }
}
