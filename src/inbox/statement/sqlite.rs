use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Binary};
use diesel::sqlite::Sqlite;

use super::{queries, uuids};
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

/// Inserts what is not there, and returns what it inserted. It begins to write, so it waits for other writers, and no prune comes before
/// the end of its transaction.
pub(crate) struct Insert<'a>(pub(crate) ClaimedKeys<'a>);

impl QueryFragment<Sqlite> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        // Each number of keys is a text of its own.
        if self.0.keys.len() > 1 {
            out.unsafe_to_cache_prepared();
        }
        out.push_sql("INSERT INTO ");
        out.push_sql(self.0.entries);
        out.push_sql(" (message_id, consumer) VALUES ");
        for (index, key) in self.0.keys.iter().enumerate() {
            out.push_sql(if index > 0 { ", (" } else { "(" });
            out.push_bind_param::<Binary, [u8]>(key.as_uuid().as_bytes())?;
            out.push_sql(", ");
            out.push_bind_param::<BigInt, _>(&self.0.consumer)?;
            out.push_sql(")");
        }
        out.push_sql(" ON CONFLICT (message_id, consumer) DO NOTHING RETURNING message_id");
        Ok(())
    }
}

/// Which of these keys have entries, without a claim.
pub(crate) struct Find<'a>(pub(crate) ClaimedKeys<'a>);

impl QueryFragment<Sqlite> for Find<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.unsafe_to_cache_prepared();
        out.push_sql("SELECT message_id FROM ");
        out.push_sql(self.0.entries);
        out.push_sql(" WHERE consumer = ");
        out.push_bind_param::<BigInt, _>(&self.0.consumer)?;
        out.push_sql(" AND message_id IN (");
        for (index, key) in self.0.keys.iter().enumerate() {
            out.push_sql(if index > 0 { ", " } else { "" });
            out.push_bind_param::<Binary, [u8]>(key.as_uuid().as_bytes())?;
        }
        out.push_sql(")");
        Ok(())
    }
}

/// Reads the inbox's start.
pub(crate) struct Start<'a>(pub(crate) &'a str);

impl QueryFragment<Sqlite> for Start<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        out.push_sql("SELECT kept_from FROM ");
        out.push_sql(self.0);
        Ok(())
    }
}

queries!(Insert -> Binary, Start -> BigInt, Find -> Binary);

pub(crate) fn answer(inserted: Vec<Vec<u8>>, kept_from: Vec<i64>) -> ClaimAnswer {
    ClaimAnswer { kept_from_ms: kept_from.into_iter().max(), new: uuids(inserted) }
}
