use std::collections::HashMap;

use diesel::debug_query;
use diesel::pg::Pg;
use diesel::pg::data_types::PgTimestamp;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error, QueryResult};
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use super::{Binds, Dialect, Inserted, Insertion, MESSAGES, POSTGRES_CHECKED_COMMIT, message_contains, without_schema};
use crate::inbox::prune_sql::{self, PruneSql};
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::store::pg_instant;

/// A returned row: id, `created_at`.
pub(in crate::enqueue) type ReturnedOne = (i64, PgTimestamp);
/// A returned row of several: message id, id, `created_at`.
pub(in crate::enqueue) type Returned = (Uuid, i64, PgTimestamp);

const COLUMNS: &str = " (message_id, topic, key, kind, headers, payload, due_at) ";

impl Dialect for Pg {
    const INBOX_PRUNE: &'static PruneSql = &prune_sql::POSTGRES;
    const ROW_COUNTS: &'static [usize] = &[];

    // An INSERT that succeeded shows that the transaction was not aborted, so the COMMIT after it was not a rollback.
    // An INSERT that ran outside a transaction, because raw SQL ended it, committed by itself.
    const COMMIT_VERIFIES_INSERT: bool = true;
    const ERRORS_END_TRANSACTION: bool = true;
    const CHECKED_COMMIT: Option<&'static str> = Some(POSTGRES_CHECKED_COMMIT);

    // A LOCAL setting ends with its transaction or savepoint. To set it costs 19,500 instructions, to check it 7,000. An
    // advisory lock would have to be looked up in pg_locks, and a transaction has no id before it writes. Not `set_config`:
    // it is a query, and after one the isolation level can no longer be set.
    const FLAG_WITH_BEGIN: bool = true;

    fn transaction_flag_sql(depth: u32) -> Option<String> {
        Some(format!("SET LOCAL outbox.transaction_{depth} = 'open'"))
    }

    fn is_transaction_lost_error(error: &Error) -> bool {
        message_contains(error, TRANSACTION_LOST)
    }

    fn is_row_removed_error(error: &Error) -> bool {
        message_contains(error, ROW_REMOVED)
    }
}

/// Part of the error for a text that is not a uuid, whatever the server's language.
const TRANSACTION_LOST: &str = "outbox: the transaction is lost";
const ROW_REMOVED: &str = "outbox: a row is missing";

/// Pushes a bind for `type_name`, or an error if the transaction's flag is gone. `server_version` keeps the planner
/// from evaluating the error early.
pub(crate) fn walk_flag_check<'b>(
    flagged: Option<u32>,
    type_name: &str,
    out: &mut AstPass<'_, 'b, Pg>,
    bind: impl FnOnce(&mut AstPass<'_, 'b, Pg>) -> QueryResult<()>,
) -> QueryResult<()> {
    let Some(depth) = flagged else { return bind(out) };
    out.push_sql(&format!("CASE WHEN current_setting('outbox.transaction_{depth}', true) = 'open' THEN "));
    bind(out)?;
    out.push_sql(&format!(" ELSE ('{TRANSACTION_LOST} ' || current_setting('server_version'))::{type_name} END"));
    Ok(())
}

/// Inserts one row of an unordered topic without a delay, which is what most calls write. It takes half the server time
/// of the array form (16 against 33 µs). It returns no more than needed: a third column, and `created_at` converted by
/// `extract`, cost a transaction 4 %.
///
/// In a transaction of the outbox's own, the statement itself fails if a trigger removed the row: the COMMIT is already
/// being sent.
pub(in crate::enqueue) struct InsertOne<'a> {
    table: &'a str,
    row: Binds<'a>,
    flagged: Option<u32>,
}

impl<'a> InsertOne<'a> {
    pub(in crate::enqueue) fn new(insertion: &Insertion<'a>) -> Option<Self> {
        let [row] = insertion.rows else { return None };
        if insertion.has_lanes() || insertion.has_delays() {
            return None;
        }
        Some(Self { table: insertion.table, row: Binds::new(row, insertion.leased), flagged: insertion.flagged })
    }
}

impl QueryFragment<Pg> for InsertOne<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let row = &self.row;
        out.push_sql(if self.flagged.is_some() { "WITH written AS (INSERT INTO " } else { "INSERT INTO " });
        out.push_sql(self.table);
        out.push_sql(COLUMNS);
        out.push_sql("VALUES (");
        walk_flag_check(self.flagged, "uuid", &mut out, |out| out.push_bind_param::<SqlUuid, _>(row.message_id))?;
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
        // Not now(), which is the start of the transaction: the lease counts from the INSERT.
        out.push_sql(", clock_timestamp() + ");
        out.push_bind_param::<BigInt, _>(&row.lease_ms)?;
        out.push_sql(" * interval '1 millisecond') RETURNING id, created_at");
        if self.flagged.is_some() {
            out.push_sql(") SELECT coalesce(id, ('");
            out.push_sql(ROW_REMOVED);
            out.push_sql(" ' || current_setting('server_version'))::bigint), created_at ");
            // One row even if none was written. Two subqueries in place of the join cost 6,000 instructions more.
            out.push_sql("FROM (VALUES (1)) AS one LEFT JOIN written ON true");
        }
        Ok(())
    }
}

impl QueryId for InsertOne<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for InsertOne<'_> {}

impl Query for InsertOne<'_> {
    type SqlType = (BigInt, Timestamptz);
}

/// Inserts any number of rows with one text: each column is an array. `ORDER BY` makes ids grow in the order of the
/// messages.
///
/// The statement itself fails if a trigger removed a row, so that the others are not committed.
pub(in crate::enqueue) struct InsertMany<'a> {
    table: &'a str,
    flagged: Option<u32>,
    count: i64,
    message_ids: Vec<&'a Uuid>,
    topics: Vec<&'a str>,
    keys: Vec<Option<&'a str>>,
    kinds: Vec<&'a str>,
    headers: Vec<&'a str>,
    payloads: Vec<Option<&'a [u8]>>,
    leases_ms: Vec<i64>,
    lanes: Vec<i32>,
    has_lanes: bool,
    /// `None` if no row is delayed.
    delays: Option<Delays>,
    key_locks: Vec<i64>,
}

/// When rows are due: after a delay, at a given time, or at once.
struct Delays {
    after_ms: Vec<Option<i64>>,
    at_ms: Vec<Option<i64>>,
}

fn after_ms(delay_ms: i64) -> i64 {
    if is_injected(InjectedBug::DelayForgotten) { 0 } else { delay_ms }
}

impl<'a> InsertMany<'a> {
    pub(in crate::enqueue) fn new(insertion: &Insertion<'a>) -> Self {
        let rows: Vec<Binds<'a>> = insertion.rows.iter().map(|row| Binds::new(row, insertion.leased)).collect();
        Self {
            table: insertion.table,
            flagged: insertion.flagged,
            count: i64::try_from(rows.len()).unwrap_or(i64::MAX),
            message_ids: rows.iter().map(|row| row.message_id).collect(),
            topics: rows.iter().map(|row| row.topic).collect(),
            keys: rows.iter().map(|row| row.key).collect(),
            kinds: rows.iter().map(|row| row.kind).collect(),
            headers: rows.iter().map(|row| row.headers).collect(),
            payloads: rows.iter().map(|row| row.payload).collect(),
            leases_ms: rows.iter().map(|row| row.lease_ms).collect(),
            lanes: rows.iter().map(|row| row.lane).collect(),
            has_lanes: insertion.has_lanes(),
            delays: insertion.has_delays().then(|| Delays {
                after_ms: rows.iter().map(|row| row.delay_ms.map(after_ms)).collect(),
                at_ms: rows.iter().map(|row| row.deliver_at_ms).collect(),
            }),
            key_locks: insertion.key_locks(),
        }
    }
}

impl InsertMany<'_> {
    /// Takes the key locks in the same round trip, but before the rows get their ids. The count forces all locks to
    /// come first.
    fn walk_locks<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock(k) FROM (SELECT k FROM unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.key_locks)?;
        out.push_sql(") AS k ORDER BY k) o), locks AS MATERIALIZED (SELECT count(*) AS held FROM locked) ");
        Ok(())
    }

    fn walk_plain<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(self.table);
        out.push_sql(COLUMNS);
        out.push_sql("SELECT m, t, k, i, h, p, clock_timestamp() + l * interval '1 millisecond' FROM unnest(");
        self.walk_columns(out)?;
        out.push_sql(") WITH ORDINALITY AS r (m, t, k, i, h, p, l, n) ORDER BY n RETURNING message_id, id, created_at");
        Ok(())
    }

    fn walk_ordered<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let locks = !self.key_locks.is_empty();
        if locks {
            self.walk_locks(out)?;
        }
        out.push_sql("INSERT INTO ");
        out.push_sql(self.table);
        out.push_sql(" (message_id, topic, key, kind, headers, payload, lane, due_at) SELECT m, t, k, i, h, p, a, ");
        out.push_sql("CASE WHEN a >= 0 THEN 'epoch' ELSE clock_timestamp() + l * interval '1 millisecond' END FROM ");
        out.push_sql(if locks { "locks CROSS JOIN unnest(" } else { "unnest(" });
        self.walk_columns(out)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Integer>, _>(&self.lanes)?;
        out.push_sql(") WITH ORDINALITY AS r (m, t, k, i, h, p, l, a, n) ");
        out.push_sql(if locks { "WHERE locks.held > 0 ORDER BY n" } else { "ORDER BY n" });
        out.push_sql(" RETURNING message_id, id, created_at");
        Ok(())
    }

    /// Inserts rows of which some are delayed. A delayed row has no owner and is not due before its time.
    fn walk_delayed<'b>(&'b self, delays: &'b Delays, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        let locks = !self.key_locks.is_empty();
        if locks {
            self.walk_locks(out)?;
        }
        out.push_sql("INSERT INTO ");
        out.push_sql(self.table);
        out.push_sql(" (message_id, topic, key, kind, headers, payload, lane, deliver_at, due_at) ");
        out.push_sql("SELECT m, t, k, i, h, p, a, v, CASE WHEN a >= 0 THEN 'epoch' ELSE greatest(clock_timestamp(), ");
        out.push_sql("coalesce(v, clock_timestamp() + l * interval '1 millisecond')) END FROM (SELECT r.*, coalesce(");
        out.push_sql(
            "timestamptz 'epoch' + u * interval '1 millisecond', clock_timestamp() + d * interval '1 millisecond')",
        );
        out.push_sql(if locks { " AS v FROM locks CROSS JOIN unnest(" } else { " AS v FROM unnest(" });
        self.walk_columns(out)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Integer>, _>(&self.lanes)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Nullable<BigInt>>, _>(&delays.after_ms)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Nullable<BigInt>>, _>(&delays.at_ms)?;
        out.push_sql(") WITH ORDINALITY AS r (m, t, k, i, h, p, l, a, d, u, n)");
        out.push_sql(if locks { " WHERE locks.held > 0) q ORDER BY n" } else { ") q ORDER BY n" });
        out.push_sql(" RETURNING message_id, id, created_at");
        Ok(())
    }

    fn walk_columns<'b>(&'b self, out: &mut AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        walk_flag_check(self.flagged, "uuid[]", out, |out| {
            out.push_bind_param::<Array<SqlUuid>, _>(&self.message_ids)
        })?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Text>, _>(&self.topics)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Nullable<Text>>, _>(&self.keys)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Text>, _>(&self.kinds)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Text>, _>(&self.headers)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<Nullable<Binary>>, _>(&self.payloads)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<BigInt>, _>(&self.leases_ms)?;
        Ok(())
    }
}

impl QueryFragment<Pg> for InsertMany<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH written AS (");
        if let Some(delays) = &self.delays {
            self.walk_delayed(delays, &mut out)?;
        } else if self.has_lanes {
            self.walk_ordered(&mut out)?;
        } else {
            self.walk_plain(&mut out)?;
        }
        out.push_sql(") SELECT message_id, id, created_at FROM written UNION ALL SELECT ('");
        out.push_sql(ROW_REMOVED);
        out.push_sql(" ' || stored)::uuid, NULL, NULL FROM (SELECT count(*) AS stored FROM written) c WHERE stored < ");
        out.push_bind_param::<BigInt, _>(&self.count)
    }
}

impl QueryId for InsertMany<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for InsertMany<'_> {}

impl Query for InsertMany<'_> {
    type SqlType = (SqlUuid, BigInt, Timestamptz);
}

fn inserted_row((id, created_at): ReturnedOne) -> Inserted {
    Inserted { id: Some(id), created_at: pg_instant(created_at).ok() }
}

/// `error` as our own where it says that the table is missing.
///
/// Neither Diesel nor diesel-async shows the error's code, and its text is in the server's language. But it points at the table's name
/// in the statement. A lock time-out does so, too, but its text lacks the name.
pub(in crate::enqueue) fn explained(insertion: &Insertion<'_>, error: Error) -> Error {
    let Error::DatabaseError(DatabaseErrorKind::Unknown, information) = &error else { return error };
    let Some(at) = information.statement_position().and_then(|at| usize::try_from(at - 1).ok()) else { return error };
    let bare = without_schema(insertion.table);
    let statement = match InsertOne::new(insertion) {
        Some(one) => debug_query::<Pg, _>(&one).to_string(),
        None => debug_query::<Pg, _>(&InsertMany::new(insertion)).to_string(),
    };
    let points_at_table = statement.get(at..).is_some_and(|pointed| pointed.starts_with(insertion.table));
    if points_at_table && information.message().contains(bare) {
        insertion.table_missing::<Pg>(MESSAGES)
    } else {
        error
    }
}

/// The result for the message of an [`InsertOne`].
pub(in crate::enqueue) fn inserted_one(
    insertion: &Insertion<'_>,
    returned: Vec<ReturnedOne>,
) -> QueryResult<Vec<Inserted>> {
    if returned.is_empty() {
        return Err(insertion.removed(|_| true));
    }
    Ok(returned.into_iter().map(inserted_row).collect())
}

/// The result for each message of `insertion`. PostgreSQL guarantees no order of the returned rows.
pub(in crate::enqueue) fn inserted(insertion: &Insertion<'_>, returned: Vec<Returned>) -> Vec<Inserted> {
    let returned: HashMap<Uuid, ReturnedOne> =
        returned.into_iter().map(|(message_id, id, created_at)| (message_id, (id, created_at))).collect();
    let inserted = |message_id: &Uuid| returned.get(message_id).copied().map(inserted_row).unwrap_or_default();
    insertion.rows.iter().map(|row| inserted(row.message_id.as_uuid())).collect()
}
