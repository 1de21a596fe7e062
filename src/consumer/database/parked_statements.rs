//! What operators ask of the parked records.

use std::sync::Arc;

use super::statements::ConsumerSql;
use crate::naming::TableNames;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::text::SqlRenderer;

fn sql<DB: Dialect>(tables: &TableNames) -> ConsumerSql {
    ConsumerSql::new(&SqlRenderer { syntax: DB::SYNTAX, names: tables, fragments: Vec::new() })
}

pub(crate) fn list<DB: Dialect>(
    tables: &TableNames,
    consumer: &Arc<str>,
    after: i64,
    rows_max: usize,
) -> Statement<DB> {
    let binds = [Bind::text(consumer), Bind::Number(after), Bind::limit(rows_max)];
    Statement::new(&sql::<DB>(tables).list, binds)
}

pub(crate) fn release<DB: Dialect>(tables: &TableNames, consumer: &Arc<str>, id: i64) -> Statement<DB> {
    Statement::new(&sql::<DB>(tables).release, [Bind::text(consumer), Bind::Number(id)])
}
