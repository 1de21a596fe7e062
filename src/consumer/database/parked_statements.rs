//! What operators ask of the parked records of one consumer.

use std::sync::Arc;

use crate::naming::TableNames;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::statements::parked;

pub(crate) fn list<DB: Dialect>(
    tables: &TableNames,
    consumer: &Arc<str>,
    after: i64,
    rows_max: usize,
) -> Statement<DB> {
    let binds = [Bind::Number(after), Bind::limit(rows_max), Bind::text(consumer)];
    Statement::new(&parked(DB::SYNTAX, tables).list_of, binds)
}

pub(crate) fn discard<DB: Dialect>(tables: &TableNames, consumer: &Arc<str>, id: i64) -> Statement<DB> {
    Statement::new(&parked(DB::SYNTAX, tables).discard_of, [Bind::Number(id), Bind::text(consumer)])
}

pub(crate) fn release<DB: Dialect>(tables: &TableNames, consumer: &Arc<str>, id: i64) -> Statement<DB> {
    Statement::new(&parked(DB::SYNTAX, tables).release_of, [Bind::Number(id), Bind::text(consumer)])
}
