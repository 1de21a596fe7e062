use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Uuid as SqlUuid};
use uuid::Uuid;

use crate::enqueue::walk_flag_check;
use crate::inbox::InboxKey;
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

/// A key that was inserted, and the inbox's start behind it.
pub(crate) type Row = (Uuid, i64);

/// Inserts what is not there, and says what it inserted: one round trip.
///
/// The start is read behind the INSERT, which may have waited for a prune that removed the first copy's entry: only then it is certain
/// that the entry is not below the start. A prune moves the start before it removes anything, and a sequence shows its newest value
/// whatever the snapshot is. **Rejected:** a condition before the INSERT, too, so that it writes nothing that is too old. It took a twelfth
/// of a consumer's transactions, and too old is rare.
///
/// A single key has its own text: as an array it takes twice the time.
pub(crate) struct Insert<'a> {
    of: ClaimedKeys<'a>,
    ids: Vec<&'a Uuid>,
}

impl<'a> Insert<'a> {
    pub(crate) fn new(of: ClaimedKeys<'a>) -> Self {
        Self { of, ids: of.keys.iter().map(InboxKey::as_uuid).collect() }
    }
}

impl QueryFragment<Pg> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(self.of.entries);
        out.push_sql(" (message_id, consumer) ");
        if let [id] = self.ids.as_slice() {
            out.push_sql("VALUES (");
            walk_flag_check(self.of.flagged, "uuid", &mut out, |out| out.push_bind_param::<SqlUuid, Uuid>(id))?;
            out.push_sql(", ");
            out.push_bind_param::<BigInt, _>(&self.of.consumer)?;
            out.push_sql(")");
        } else {
            out.push_sql("SELECT id, ");
            out.push_bind_param::<BigInt, _>(&self.of.consumer)?;
            out.push_sql(" FROM unnest(");
            out.push_bind_param::<Array<SqlUuid>, _>(&self.ids)?;
            // Without ORDER BY, a plan could insert in another order than other claims.
            out.push_sql(") AS k (id) ORDER BY id");
        }
        out.push_sql(" ON CONFLICT (message_id, consumer) DO NOTHING RETURNING message_id, (SELECT last_value FROM ");
        out.push_sql(self.of.start);
        // The condition ties it to the row: otherwise it is read once, behind the first of several.
        out.push_sql(if self.ids.len() == 1 { ")" } else { " WHERE message_id IS NOT NULL)" });
        Ok(())
    }
}

/// Which of these keys have entries, without a claim.
pub(crate) struct Find<'a> {
    of: ClaimedKeys<'a>,
    ids: Vec<&'a Uuid>,
}

impl<'a> Find<'a> {
    pub(crate) fn new(of: ClaimedKeys<'a>) -> Self {
        Self { of, ids: of.keys.iter().map(InboxKey::as_uuid).collect() }
    }
}

impl QueryFragment<Pg> for Find<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("SELECT message_id FROM ");
        out.push_sql(self.of.entries);
        out.push_sql(" WHERE consumer = ");
        out.push_bind_param::<BigInt, _>(&self.of.consumer)?;
        out.push_sql(" AND message_id = ANY(");
        out.push_bind_param::<Array<SqlUuid>, _>(&self.ids)?;
        out.push_sql(")");
        Ok(())
    }
}

/// Texts with names of tables, which no type stands for.
macro_rules! queries {
    ($($query:ident -> $sql_type:ty),+) => {$(
        impl QueryId for $query<'_> {
            type QueryId = ();
            const HAS_STATIC_QUERY_ID: bool = false;
        }

        impl<C> diesel::RunQueryDsl<C> for $query<'_> {}

        impl Query for $query<'_> {
            type SqlType = $sql_type;
        }
    )+};
}

queries!(Insert -> (SqlUuid, BigInt), Find -> SqlUuid);

pub(crate) fn answer(rows: Vec<Row>) -> ClaimAnswer {
    ClaimAnswer {
        // A missing sequence is an error of the statement. Nobody needs the start of what was not inserted.
        kept_from_ms: Some(rows.iter().map(|(_, kept_from)| *kept_from).max().unwrap_or(i64::MIN)),
        new: rows.into_iter().map(|(id, _)| id).collect(),
    }
}
