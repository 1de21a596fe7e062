//! An outbox in a SQL database. What the databases have in common is here, once. What differs is in each database's implementation of
//! [`flows::Flows`]; [`statements`] has the texts of all databases side by side.

// Each database uses a part of it.
#![cfg_attr(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]

mod admin;
pub(crate) mod binds;
pub(crate) mod calls;
pub(crate) mod columns;
pub(crate) mod flows;
pub(crate) mod group;
pub(crate) mod halves;
mod history;
mod kept_rows;
mod lanes;
mod port;
pub(crate) mod rows;
pub(crate) mod scans;
pub(crate) mod search;
pub(crate) mod statements;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use self::calls::Calls;
use self::statements::Texts;
use super::pause_table::PauseTable;
use super::session::{Connections, Sessions};
use super::statement::Dialect;
use crate::limits::STATEMENT_TIMEOUT;
use crate::naming::TableNames;

/// An outbox in a SQL database: [`PostgresStore`](super::PostgresStore), [`MysqlStore`](super::MysqlStore) or
/// [`SqliteStore`](super::SqliteStore), which say how it is made and what it needs.
pub struct SqlStore<DB: Dialect, P: Sessions<DB>> {
    pub(crate) calls: Calls<DB, P>,
    pub(crate) names: TableNames,
    pub(crate) texts: Arc<Texts>,
    pub(crate) pause_table: PauseTable,
    pub(crate) beside: DB::Beside,
}

impl<DB: Dialect, P: Sessions<DB>> SqlStore<DB, P> {
    /// On the default names, until it is told others.
    pub(crate) fn over(connections: Connections<DB, P>, beside: DB::Beside) -> Self {
        let names = TableNames::default();
        Self {
            calls: Calls { connections: Arc::new(connections), deadline: STATEMENT_TIMEOUT },
            texts: Arc::new(Texts::new(DB::WORDS, &names)),
            names,
            pause_table: PauseTable::default(),
            beside,
        }
    }
}

impl<DB: Dialect, P: Sessions<DB>> fmt::Debug for SqlStore<DB, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, names, pause_table, .. } = self;
        let mut store = f.debug_struct(DB::WORDS.store);
        store.field("connections", &calls.connections).field("names", names).field("pause_table", pause_table);
        store.finish_non_exhaustive()
    }
}
