//! MySQL and MariaDB.

mod admin;
mod admin_rows;
mod admin_texts;
mod backlog;
mod bind;
mod check;
mod claim;
mod group;
mod half_texts;
mod halves;
mod history;
mod history_texts;
mod lane_texts;
mod lanes;
mod port;
mod rows;
mod texts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use diesel::mysql::Mysql;

use self::admin_texts::AdminTexts;
use self::half_texts::half_texts;
use self::history_texts::HistoryTexts;
use self::lane_texts::LaneTexts;
use self::texts::Texts;
use super::half_marks::HalfTexts;
use super::pause_table::PauseTable;
use super::session::{Connections, Sessions};
use crate::clock::millis;
use crate::limits::{SERVER_STATEMENT_PERCENT, STATEMENT_TIMEOUT};
use crate::naming::TableNames;

/// An outbox in MySQL (8.0.13 or later) or MariaDB (10.6 or later).
///
/// Works through sync (r2d2) and async (diesel-async) pools alike, see [`Sessions`]. The schema of
/// [`TableNames`] is what these servers call a database.
///
/// ```no_run
/// # #[cfg(feature = "r2d2")] {
/// use diesel::MysqlConnection;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::store::MysqlStore;
///
/// let manager = ConnectionManager::<MysqlConnection>::new("mysql://localhost/shop");
/// let store = MysqlStore::new(Pool::builder().max_size(6).build(manager)?);
/// # let _ = store;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct MysqlStore<P: Sessions<Mysql>> {
    connections: Connections<Mysql, P>,
    names: TableNames,
    texts: Texts,
    lane_texts: LaneTexts,
    half_texts: HalfTexts,
    admin_texts: AdminTexts,
    pause_table: PauseTable,
    history_texts: Arc<HistoryTexts>,
}

impl<P: Sessions<Mysql>> MysqlStore<P> {
    /// An outbox reached through `pool`; the relay says under which names.
    pub fn new(pool: P) -> Self {
        let names = TableNames::default();
        let set_up = set_up(STATEMENT_TIMEOUT);
        let (texts, lane_texts, half_texts) = (Texts::new(&names), LaneTexts::new(&names), half_texts(&names));
        let (admin_texts, history_texts) = (AdminTexts::new(&names), Arc::new(HistoryTexts::new(&names)));
        let (connections, pause_table) = (Connections::new(pool, Some(set_up)), PauseTable::default());
        Self { connections, texts, lane_texts, half_texts, admin_texts, history_texts, pause_table, names }
    }

    /// Bounds each call, by default to [`STATEMENT_TIMEOUT`].
    #[must_use]
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.connections = self.connections.with_deadline(timeout).with_set_up(set_up(timeout));
        self
    }
}

/// What each connection needs, whatever the server's defaults: at REPEATABLE READ a claim locks gaps, and with them the
/// application's INSERTs, until it commits. The server gives a lock up before the caller gives the statement up, which
/// would go on waiting there: a row's, and a table's, for which an ALTER TABLE waits or which it has. It ends what is slow as well, MySQL
/// only what reads. English, because errors are told apart by their text.
fn set_up(deadline: Duration) -> Arc<str> {
    let lock_wait = lock_wait(deadline);
    let statement = deadline * SERVER_STATEMENT_PERCENT / 100;
    // Zero is no time-out at all.
    let (secs, ms) = (statement.as_secs_f64().max(0.001), millis(statement).max(1));
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION TRANSACTION READ WRITE; \
         SET SESSION autocommit = 1, innodb_lock_wait_timeout = {lock_wait}, lock_wait_timeout = {lock_wait}, \
         /*!80000 max_execution_time = {ms}, */ /*M!100600 max_statement_time = {secs:.3}, */ lc_messages = 'en_US'"
    )
    .into()
}

/// For how many seconds a statement waits for a lock.
fn lock_wait(deadline: Duration) -> u64 {
    deadline.as_secs().saturating_sub(1).max(1)
}

impl<P: Sessions<Mysql>> fmt::Debug for MysqlStore<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, names, pause_table, .. } = self;
        let mut store = f.debug_struct("MysqlStore");
        store.field("connections", connections).field("names", names).field("pause_table", pause_table);
        store.finish_non_exhaustive()
    }
}
