use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, QueryFragment};
use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Binary, Nullable};

use super::{queries, uuids};
use crate::enqueue::{GUARD_BEGIN, GUARD_END};
use crate::inbox::InboxKey;
use crate::inbox::claims::{ClaimAnswer, ClaimedKeys};

/// The inbox's start, and a key that the claim has inserted; one row without a key if there is none.
pub(crate) type Row = (i64, Option<Vec<u8>>);

/// Inserts what is not there, and counts the copies of what is.
///
/// On a duplicate it takes an exclusive lock, where a plain INSERT takes a shared one and two of those deadlock. So the second of two nodes
/// waits for the first one's transaction, as it has to.
///
/// Rejected: `INSERT IGNORE`, which makes warnings of all other errors, too: a message whose entry a CHECK or a trigger refused would count
/// as a duplicate and be lost. `ON DUPLICATE KEY UPDATE consumer = consumer`: Diesel connects with CLIENT_FOUND_ROWS, so an unchanged row
/// counts as one, as an inserted row does. And the count of several rows does not say which are new.
///
/// Only MariaDB can refuse outside a transaction: a deadlock or DDL may have ended it unnoticed.
pub(crate) struct Insert<'a>(pub(crate) ClaimedKeys<'a>);

impl QueryFragment<Mysql> for Insert<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        cache_single(&self.0, &mut out);
        out.push_sql("INSERT INTO ");
        out.push_sql(self.0.entries);
        out.push_sql(" (message_id, consumer) VALUES ");
        for (index, key) in self.0.keys.iter().enumerate() {
            out.push_sql(if index > 0 { ", (" } else { "(" });
            out.push_bind_param::<Binary, [u8]>(key.as_uuid().as_bytes())?;
            out.push_sql(", ");
            out.push_sql(if index > 0 { "" } else { GUARD_BEGIN });
            out.push_bind_param::<BigInt, _>(&self.0.consumer)?;
            out.push_sql(if index > 0 { ")" } else { GUARD_END });
            out.push_sql(if index > 0 { "" } else { ")" });
        }
        out.push_sql(" ON DUPLICATE KEY UPDATE copies = copies + 1");
        Ok(())
    }
}

/// What the INSERT before it has inserted: what was there has a copy now.
///
/// A statement of its own, because InnoDB shows it the newest start: the INSERT may have waited for a prune that removed the first copy's
/// entry. The first read of a transaction makes its snapshot, so this is true if the claim comes first in its transaction.
pub(crate) struct Select<'a>(pub(crate) ClaimedKeys<'a>);

impl QueryFragment<Mysql> for Select<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        cache_single(&self.0, &mut out);
        out.push_sql("SELECT s.kept_from, i.message_id FROM ");
        out.push_sql(self.0.start);
        out.push_sql(" s LEFT JOIN ");
        out.push_sql(self.0.entries);
        out.push_sql(" i ON i.consumer = ");
        out.push_bind_param::<BigInt, _>(&self.0.consumer)?;
        out.push_sql(" AND i.copies = 0 AND i.message_id IN (");
        walk_keys(self.0.keys, &mut out)?;
        out.push_sql(")");
        Ok(())
    }
}

/// Which of these keys have entries, without a claim. It reads what is committed, whatever the connection's isolation level is, and passes
/// over what another transaction writes.
pub(crate) struct Find<'a>(pub(crate) ClaimedKeys<'a>);

impl QueryFragment<Mysql> for Find<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        cache_single(&self.0, &mut out);
        out.push_sql("SELECT message_id FROM ");
        out.push_sql(self.0.entries);
        out.push_sql(" WHERE consumer = ");
        out.push_bind_param::<BigInt, _>(&self.0.consumer)?;
        out.push_sql(" AND message_id IN (");
        walk_keys(self.0.keys, &mut out)?;
        out.push_sql(") FOR UPDATE SKIP LOCKED");
        Ok(())
    }
}

fn walk_keys<'b>(keys: &'b [InboxKey], out: &mut AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
    for (index, key) in keys.iter().enumerate() {
        out.push_sql(if index > 0 { ", " } else { "" });
        out.push_bind_param::<Binary, [u8]>(key.as_uuid().as_bytes())?;
    }
    Ok(())
}

/// Each number of keys is a text of its own, and the server limits the prepared statements of all connections.
fn cache_single(keys: &ClaimedKeys<'_>, out: &mut AstPass<'_, '_, Mysql>) {
    if keys.keys.len() > 1 {
        out.unsafe_to_cache_prepared();
    }
}

queries!(Insert, Select -> (BigInt, Nullable<Binary>), Find -> Binary);

pub(crate) fn answer(rows: Vec<Row>) -> ClaimAnswer {
    ClaimAnswer {
        kept_from_ms: rows.iter().map(|(kept_from, _)| *kept_from).max(),
        new: uuids(rows.into_iter().filter_map(|(_, id)| id).collect()),
    }
}
