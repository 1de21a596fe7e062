use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Nullable, Uuid as SqlUuid};
use uuid::Uuid;

use crate::enqueue::walk_flag_check;
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

/// A key that was inserted, and the inbox's start behind it; the last row has no key.
pub(crate) type Row = (Option<Uuid>, i64);

/// One round trip. It inserts what is not too old and not there, and says what it inserted.
///
/// The start is read twice. The first time is before the INSERT, so that it does not write what is refused. The second time is behind it:
/// the INSERT may have waited for a prune that removed the first copy's entry, and only then it is certain that the entry is not below the
/// start. A prune moves the start before it removes anything, and a sequence shows its newest value whatever the snapshot is.
///
/// A single key has its own text: as an array it takes twice the time.
pub(crate) struct Insert<'a> {
    of: ClaimedKeys<'a>,
    ids: Vec<&'a Uuid>,
    ages: Vec<i64>,
}

impl<'a> Insert<'a> {
    pub(crate) fn new(of: ClaimedKeys<'a>) -> Self {
        let (ids, ages) = of.keys.iter().map(|key| (key.as_uuid(), key.age_ms())).unzip();
        Self { of, ids, ages }
    }
}

impl QueryFragment<Pg> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("WITH claimed AS (INSERT INTO ");
        out.push_sql(self.of.entries);
        out.push_sql(" (message_id, consumer) SELECT ");
        if let ([id], [age]) = (self.ids.as_slice(), self.ages.as_slice()) {
            walk_flag_check(self.of.flagged, "uuid", &mut out, |out| out.push_bind_param::<SqlUuid, Uuid>(id))?;
            out.push_sql(", ");
            out.push_bind_param::<BigInt, _>(&self.of.consumer)?;
            out.push_sql(" WHERE ");
            out.push_bind_param::<BigInt, _>(age)?;
        } else {
            out.push_sql("id, ");
            out.push_bind_param::<BigInt, _>(&self.of.consumer)?;
            out.push_sql(" FROM unnest(");
            out.push_bind_param::<Array<SqlUuid>, _>(&self.ids)?;
            out.push_sql(", ");
            out.push_bind_param::<Array<BigInt>, _>(&self.ages)?;
            out.push_sql(") AS k (id, age) WHERE age");
        }
        out.push_sql(" >= (SELECT last_value FROM ");
        out.push_sql(self.of.start);
        // Without ORDER BY, a plan could insert in another order than other claims.
        out.push_sql(if self.ids.len() == 1 { ")" } else { ") ORDER BY id" });
        out.push_sql(" ON CONFLICT (message_id, consumer) DO NOTHING RETURNING message_id, (SELECT last_value FROM ");
        out.push_sql(self.of.start);
        // The condition ties it to the row: otherwise it is read once, behind the first of several.
        out.push_sql(" WHERE message_id IS NOT NULL) AS kept_from) SELECT message_id, kept_from FROM claimed UNION ALL SELECT NULL, last_value FROM ");
        out.push_sql(self.of.start);
        Ok(())
    }
}

impl QueryId for Insert<'_> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<C> diesel::RunQueryDsl<C> for Insert<'_> {}

impl Query for Insert<'_> {
    type SqlType = (Nullable<SqlUuid>, BigInt);
}

pub(crate) fn answer(rows: Vec<Row>) -> ClaimAnswer {
    ClaimAnswer {
        kept_from_ms: rows.iter().map(|(_, kept_from)| *kept_from).max(),
        new: rows.into_iter().filter_map(|(id, _)| id).collect(),
    }
}
