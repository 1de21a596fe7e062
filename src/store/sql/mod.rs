//! An outbox in a SQL database. What the databases share is here, once. What differs is in each implementation of
//! [`database::Database`]; [`statements`] has the texts of all databases side by side.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

mod admin;
mod admin_rows;
mod audit;
pub(crate) mod binds;
pub(crate) mod database;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod dialect;
pub(crate) mod executor;
pub(crate) mod halves;
mod history;
mod lanes;
mod live_pages;
pub(crate) mod live_rows;
pub(crate) mod live_search;
mod parked;
pub(crate) mod read_value;
pub(crate) mod row_batch;
pub(crate) mod rows;
pub(crate) mod scans;
pub(crate) mod search;
pub(crate) mod statements;
mod store;
#[cfg(test)]
mod tests;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod text;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::dialect::Dialect;
use self::executor::Executor;
use self::statements::Sql;
use super::pause_table::PauseTable;
use super::pool::{ConnectionPool, Connections};
use crate::limits::STATEMENT_TIMEOUT;
use crate::naming::TableNames;

/// An outbox in a SQL database: [`PostgresStore`](super::PostgresStore), [`MysqlStore`](super::MysqlStore) or
/// [`SqliteStore`](super::SqliteStore). They say how to make it and what it needs.
pub struct SqlStore<DB: Dialect, P: ConnectionPool<DB>> {
    pub(crate) executor: Executor<DB, P>,
    pub(crate) names: TableNames,
    pub(crate) sql: Arc<Sql>,
    pub(crate) pause_table: PauseTable,
    /// Whether the table of the audit was there. A later migration creates it.
    has_audit: AtomicBool,
    pub(crate) extra: DB::Extra,
}

impl<DB: Dialect, P: ConnectionPool<DB>> SqlStore<DB, P> {
    /// Uses the default table names until others are set.
    pub(crate) fn from_connections(connections: Connections<DB, P>, extra: DB::Extra) -> Self {
        let names = TableNames::default();
        Self {
            executor: Executor { connections: Arc::new(connections), deadline: STATEMENT_TIMEOUT },
            sql: Arc::new(Sql::new(DB::SYNTAX, &names)),
            names,
            pause_table: PauseTable::default(),
            has_audit: AtomicBool::new(false),
            extra,
        }
    }
}

impl<DB: Dialect, P: ConnectionPool<DB>> fmt::Debug for SqlStore<DB, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executor, names, pause_table, .. } = self;
        let mut store = f.debug_struct(DB::SYNTAX.store);
        store.field("connections", &executor.connections).field("names", names).field("pause_table", pause_table);
        store.finish_non_exhaustive()
    }
}
