use diesel::pg::Pg;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::QueryResult;
use diesel::sql_types::{Array, BigInt, Nullable, Uuid as SqlUuid};
use uuid::Uuid;

use super::queries;
use crate::enqueue::walk_flag_check;
use crate::inbox::InboxKey;
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

/// A key that was inserted, and the inbox's start behind it; the last row has no key.
pub(crate) type Row = (Option<Uuid>, i64);

/// One round trip. It inserts what is not too old and not there, and says what it inserted.
///
/// The start is read twice. The first time is before the INSERT, so that it does not write what is refused. The second time is behind it:
/// the INSERT may have waited for a prune that removed the first copy's entry, and only then it is certain that the entry is not below the
/// start. A prune moves the start before it removes anything, and a sequence shows its newest value whatever the snapshot is.
///
/// A single key has its own text: as an array it takes twice the time. [`InsertRecent`] takes less.
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
        out.push_sql("WITH first AS MATERIALIZED (SELECT last_value FROM ");
        out.push_sql(self.of.start);
        out.push_sql("), claimed AS (INSERT INTO ");
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
        out.push_sql(" >= (SELECT last_value FROM first");
        // Without ORDER BY, a plan could insert in another order than other claims.
        out.push_sql(if self.ids.len() == 1 { ")" } else { ") ORDER BY id" });
        out.push_sql(" ON CONFLICT (message_id, consumer) DO NOTHING RETURNING message_id, (SELECT last_value FROM ");
        out.push_sql(self.of.start);
        // The condition ties it to the row: otherwise it is read once, behind the first of several.
        out.push_sql(" WHERE message_id IS NOT NULL) AS kept_from) SELECT message_id, kept_from FROM claimed UNION ALL SELECT NULL, greatest(s.last_value, first.last_value) FROM first, ");
        out.push_sql(self.of.start);
        out.push_sql(" s");
        Ok(())
    }
}

/// Inserts one key that is not below the last start that this process has seen, and returns the start behind it, if it inserted.
///
/// Nearly every key is one, and this saves two of three reads of the start, and a copy a tenth of its time. The start may have moved: then the entry is written, and the message still too old. It goes with the caller's rollback, or with the next prune.
#[derive(Clone, Copy)]
pub(crate) struct InsertRecent<'a> {
    of: ClaimedKeys<'a>,
    key: &'a InboxKey,
}

impl<'a> InsertRecent<'a> {
    pub(crate) fn new(of: ClaimedKeys<'a>) -> Option<Self> {
        let [key] = of.keys else { return None };
        (key.age_ms() >= of.seen_start_ms).then_some(Self { of, key })
    }

    pub(crate) fn answer(self, kept_from: &[i64]) -> ClaimAnswer {
        let new = kept_from.iter().map(|_| *self.key.as_uuid()).collect();
        // Of what was not inserted the entry is there, so nobody needs the start.
        ClaimAnswer { new, kept_from_ms: Some(kept_from.iter().copied().max().unwrap_or(i64::MIN)) }
    }
}

impl QueryFragment<Pg> for InsertRecent<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("INSERT INTO ");
        out.push_sql(self.of.entries);
        out.push_sql(" (message_id, consumer) VALUES (");
        let id = |out: &mut AstPass<'_, 'b, Pg>| out.push_bind_param::<SqlUuid, Uuid>(self.key.as_uuid());
        walk_flag_check(self.of.flagged, "uuid", &mut out, id)?;
        out.push_sql(", ");
        out.push_bind_param::<BigInt, _>(&self.of.consumer)?;
        out.push_sql(") ON CONFLICT (message_id, consumer) DO NOTHING RETURNING (SELECT last_value FROM ");
        out.push_sql(self.of.start);
        out.push_sql(")");
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

queries!(Insert -> (Nullable<SqlUuid>, BigInt), InsertRecent -> BigInt, Find -> SqlUuid);

pub(crate) fn answer(rows: Vec<Row>) -> ClaimAnswer {
    ClaimAnswer {
        kept_from_ms: rows.iter().map(|(_, kept_from)| *kept_from).max(),
        new: rows.into_iter().filter_map(|(id, _)| id).collect(),
    }
}
